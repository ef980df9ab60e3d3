"""The learners that solve a program, or project, and play its policy until the next."""

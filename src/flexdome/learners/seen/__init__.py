"""What was seen: counts, sums and successors, and nothing else."""

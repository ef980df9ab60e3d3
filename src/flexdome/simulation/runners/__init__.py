"""One runner for each family of learners: many episodes with exact metrics, in compiled chunks."""

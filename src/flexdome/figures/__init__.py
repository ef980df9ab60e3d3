"""The paper's figures and ours."""

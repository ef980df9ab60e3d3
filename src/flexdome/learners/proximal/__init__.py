"""ProxDOME: exact soft planning under optimism, multipliers solved for under pessimism."""

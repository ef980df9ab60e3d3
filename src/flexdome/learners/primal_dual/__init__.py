"""The optimistic primal-dual family: FlexDOME, its peers, and AnchorDOME."""

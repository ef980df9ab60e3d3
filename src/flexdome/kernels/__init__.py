"""Compiled loops over arrays.

Kernels are module-level functions under one decorator, :func:`flexdome.kernels.jit.kernel`. Arrays and
scalars go in, caller-owned arrays come out; float64, no fastmath, no global random numbers.

A transition model is a pair ``(p, nxt)``. Dense: ``p[h, s, a, s']`` with ``nxt`` of shape ``(1, 1, 1, 0)``.
Successor lists: ``p[h, s, a, k]`` is the probability of the state ``nxt[h, s, a, k]``. A stationary model has
a first axis of length one. Rows may sum to less than one; the missing mass leaves the system.
"""

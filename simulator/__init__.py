"""A believable fleet behind the seams of the real hardware.

`SimulatedFleet` (simulator.fleet) gives every node a driver's library, a /proc, line files and a kernel log that move
together: NVL72 racks with their cooling, one synchronous job, and one fault of `simulator.faults` whose truth is
known. Deterministic from a seed; time is event time, a tick a second.
"""

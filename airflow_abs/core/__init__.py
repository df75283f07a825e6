"""The scheduling core: Flink's adaptive batch scheduler as decisions over values.

Standard library only; no I/O, no clock, no randomness, no logging. Bytes and options go in, frozen decisions come out,
each with its inputs and its reason. `decide/` is what every job uses; see docs/how-it-decides.md.
"""

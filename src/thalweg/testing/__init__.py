"""Judges and data: oracles that share no code with the engine, and seeded generators."""

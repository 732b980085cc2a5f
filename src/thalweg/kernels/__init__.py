"""Pure functions on arrays, compiled by Numba; nothing here imports the rest of the package."""

"""Plans: from a logical query to delta plans, and from those to the arrays that kernels interpret."""

"""What touches the world: the directory of cards, and states in memory's store."""

"""What touches the world: the cache and the stream."""

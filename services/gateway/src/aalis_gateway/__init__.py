"""The gateway: orders, filters and routes what people say."""

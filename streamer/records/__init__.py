"""Records: what comes in, how it is decoded, why it is decided, where it is routed."""

"""What the store needs beside the client: hooks around commits, and where values stand in the map."""

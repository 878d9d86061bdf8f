"""What `streamer doctor` finds: settings held against brokers, rights, topics and this machine."""

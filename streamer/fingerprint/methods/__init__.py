"""Methods of papers: what each adds to MinHash and SimHash, and the presets that put it together.

weights       formulas of a word's weight: length, place in a sentence, title, tf
word_factors  the factors that the settings ask for, multiplied word by word
word_tables   their tables and lists: idf, tags, markers, particles, dictionaries
idf           counts an idf table of the user's own documents
second_look   feature vectors (cosine) and metadata, which judge a match again
presets/      a TOML file for each method, by which `streamer.settings.presets` sets it

MinHash needs nothing of it but its presets.
"""

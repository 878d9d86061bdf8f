"""Text before fingerprints: main text, normal form, scripts, segmentation, words."""

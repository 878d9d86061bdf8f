"""Text before it is fingerprinted: normal form, scripts, segmentation, words, main text."""

"""Audit: how good are the verdicts, measured on the stream itself?"""

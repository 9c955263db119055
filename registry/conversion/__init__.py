"""Directories of safetensors to GGUF files, as llama.cpp's converter makes them."""

from registry.conversion.conversion import ConversionOptions, ConversionReport, convert

__all__ = ["ConversionOptions", "ConversionReport", "convert"]

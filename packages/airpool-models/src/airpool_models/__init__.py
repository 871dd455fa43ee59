"""Weights, latents and sample objects of airpool: data alone, which airpool.models reads.

modelnet40/          trunk, heads, codecs and held-out latents (NOTICE: academic research)
sensors/             models of wearables and photographs, each with its card
trunks/              an ImageNet trunk for ordinary cameras (NOTICE: Apache-2.0)
shapes.safetensors   our own 112 sample objects
"""

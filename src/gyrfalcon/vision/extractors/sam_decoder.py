"""The mask decoder of Segment Anything, in plain PyTorch: from boxes and the encoder's last map to masks.

A. Kirillov et al., "Segment Anything", 2023; the weights are those that come with MobileSAM's encoder, see `TinyViT`.
Names of the parts follow the published weights. Places are relative to the longest side of the image, as if it were
padded to a square, and maps may be rectangles.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from .channel_norm import ChannelNorm

WIDTH = 256
HEADS = 8
HIDDEN = 2048
MASKS = 4
FINER = 4  # cells of a mask along each side of a cell of the map


class _Attention(nn.Module):
    def __init__(self, inner: int):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(WIDTH, inner) for _ in range(3))
        self.out_proj = nn.Linear(inner, WIDTH)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        parts = (self.q_proj(q), self.k_proj(k), self.v_proj(v))
        heads = (part.unflatten(2, (HEADS, -1)).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(*heads)
        y: Tensor = self.out_proj(mixed.transpose(1, 2).flatten(2))
        return y


class _Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin1, self.lin2 = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.lin2(functional.relu(self.lin1(x)))
        return y


class _Layers(nn.Module):
    """Three linear layers with rectifiers between them."""

    def __init__(self, out: int):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, out)])

    def forward(self, x: Tensor) -> Tensor:
        first, second, last = self.layers
        y: Tensor = last(functional.relu(second(functional.relu(first(x)))))
        return y


class _Block(nn.Module):
    """Tokens attend to each other and to the map, and the map to the tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.self_attn = _Attention(WIDTH)
        self.cross_attn_token_to_image, self.cross_attn_image_to_token = _Attention(WIDTH // 2), _Attention(WIDTH // 2)
        self.norm1, self.norm2, self.norm3, self.norm4 = (nn.LayerNorm(WIDTH) for _ in range(4))
        self.mlp = _Mlp()

    def forward(self, tokens: Tensor, cells: Tensor, prompt: Tensor, places: Tensor, first: bool) -> tuple[Tensor, ...]:
        if first:
            tokens = self.norm1(self.self_attn(tokens, tokens, tokens))
        else:
            q = tokens + prompt
            tokens = self.norm1(tokens + self.self_attn(q, q, tokens))
        tokens = self.norm2(tokens + self.cross_attn_token_to_image(tokens + prompt, cells + places, cells))
        tokens = self.norm3(tokens + self.mlp(tokens))
        cells = self.norm4(cells + self.cross_attn_image_to_token(cells + places, tokens + prompt, tokens))
        return tokens, cells


class _Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([_Block(), _Block()])
        self.final_attn_token_to_image = _Attention(WIDTH // 2)
        self.norm_final_attn = nn.LayerNorm(WIDTH)

    def forward(self, cells: Tensor, places: Tensor, prompt: Tensor) -> tuple[Tensor, Tensor]:
        tokens = prompt
        for number, layer in enumerate(self.layers):
            tokens, cells = layer(tokens, cells, prompt, places, number == 0)
        tokens = tokens + self.final_attn_token_to_image(tokens + prompt, cells + places, cells)
        return self.norm_final_attn(tokens), cells


class SamDecoder(nn.Module):
    """Masks of what is in boxes.

    Parameters
    ----------
    state : mapping of str to tensor
        Weights by their published names, which begin with `prompt_encoder.` and `mask_decoder.`.
    """

    frequencies: Tensor

    def __init__(self, state: Mapping[str, Tensor]):
        super().__init__()
        self.transformer = _Transformer()
        self.iou_token, self.mask_tokens = nn.Embedding(1, WIDTH), nn.Embedding(MASKS, WIDTH)
        self.output_upscaling = nn.Sequential(
            nn.ConvTranspose2d(WIDTH, WIDTH // 4, 2, 2),
            ChannelNorm(WIDTH // 4),
            nn.GELU(),
            nn.ConvTranspose2d(WIDTH // 4, WIDTH // 8, 2, 2),
            nn.GELU(),
        )
        self.output_hypernetworks_mlps = nn.ModuleList(_Layers(WIDTH // 8) for _ in range(MASKS))
        self.iou_prediction_head = _Layers(MASKS)
        self.corners = nn.Parameter(torch.zeros(2, WIDTH))
        self.no_mask = nn.Parameter(torch.zeros(WIDTH))
        self.register_buffer("frequencies", torch.zeros(2, WIDTH // 2))
        decoder, prompts = "mask_decoder.", "prompt_encoder."
        wanted = {key.removeprefix(decoder): value for key, value in state.items() if key.startswith(decoder)}
        wanted["frequencies"] = state[f"{prompts}pe_layer.positional_encoding_gaussian_matrix"]
        wanted["corners"] = torch.cat([state[f"{prompts}point_embeddings.{corner}.weight"] for corner in (2, 3)])
        wanted["no_mask"] = state[f"{prompts}no_mask_embed.weight"][0]
        self.load_state_dict(wanted)
        self.eval().requires_grad_(False)

    def __call__(self, embedding: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of four masks for each box, and how well each is thought to overlap the object.

        Parameters
        ----------
        embedding : tensor of shape (256, rows, columns)
            What the encoder's neck made of an image.
        boxes : tensor of shape (n, 4)
            Left, top, right and bottom, in cells of that map.

        Returns
        -------
        tensors of shape (n, 4, 4·rows, 4·columns) and (n, 4)
        """
        with torch.inference_mode():
            return self.forward(embedding, boxes)

    def forward(self, embedding: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
        _, rows, columns = embedding.shape
        count, side = len(boxes), max(rows, columns)
        y, x = ((torch.arange(number) + 0.5) / side for number in (rows, columns))
        places = self._encoded(torch.stack(torch.meshgrid(x, y, indexing="xy"), -1)).flatten(0, 1)
        corners = self._encoded(boxes.view(count, 2, 2) / side) + self.corners
        own = torch.cat([self.iou_token.weight, self.mask_tokens.weight])
        prompt = torch.cat([own.expand(count, -1, -1), corners], 1)
        cells = (embedding.flatten(1).T + self.no_mask).expand(count, -1, -1)
        tokens, cells = self.transformer(cells, places.expand(count, -1, -1), prompt)
        finer = self.output_upscaling(cells.transpose(1, 2).unflatten(2, (rows, columns)))
        pairs = enumerate(self.output_hypernetworks_mlps, start=1)
        weights = torch.stack([layers(tokens[:, number]) for number, layers in pairs], 1)
        return torch.einsum("nkc,nchw->nkhw", weights, finer), self.iou_prediction_head(tokens[:, 0])

    def _encoded(self, places: Tensor) -> Tensor:
        """Sines and cosines of places between 0 and 1, which are in the last dimension."""
        angles = 2 * torch.pi * ((2 * places - 1) @ self.frequencies)
        return torch.cat([angles.sin(), angles.cos()], -1)

"""What the CUDA examples have to compute, in float64."""

import numpy as np


def matmul(a, b):
    return {"c": a @ b}


def softmax(x):
    shifted = np.exp(x - x.max(axis=1, keepdims=True))
    return {"y": shifted / shifted.sum(axis=1, keepdims=True)}


def conv2d(image, weights, height, width):
    radius = weights.shape[0] // 2
    padded = np.pad(image, radius)
    out = np.zeros_like(image)
    for dy in range(weights.shape[0]):
        for dx in range(weights.shape[1]):
            out += weights[dy, dx] * padded[dy : dy + height, dx : dx + width]
    return {"out": out}


def reduce_sum(x):
    return {"total": np.array([x.sum()])}


def transpose(matrix):
    return {"out": matrix.T.copy()}


def nbody(bodies):
    position, mass = bodies[:, :3], bodies[:, 3]
    away = position[None, :, :] - position[:, None, :]
    distance = (away**2).sum(axis=2) + 1e-2
    force = (away * (mass[None, :] / distance**1.5)[:, :, None]).sum(axis=1)
    return {"force": np.concatenate([force, np.zeros((len(bodies), 1))], axis=1)}

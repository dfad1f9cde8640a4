# SPDX-License-Identifier: MIT
"""Training steps of convolutional networks, written out.

    vision.py --model ResNet101 --batch 351 --optimizer SGD
"""
import argparse
import functools

import torch
from torch import nn


def unit(inputs, outputs, size, stride=1, groups=1, act=nn.ReLU):
    """A convolution, a normalisation, an activation."""
    parts = [nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
             nn.BatchNorm2d(outputs)]
    return nn.Sequential(*parts, *([act(inplace=True)] if act else []))


class Residual(nn.Module):
    """A body, a way around it, and an activation of the sum."""

    def __init__(self, body, around=None, act=nn.ReLU):
        super().__init__()
        self.body, self.around = body, around
        self.act = act(inplace=True) if act else None

    def forward(self, x):
        out = self.body(x)
        way = x if self.around is None else self.around(x)
        if self.act is None:
            return way + out
        out += way
        return self.act(out)


def bottleneck(inputs, middle, outputs, stride, groups=1):
    body = nn.Sequential(unit(inputs, middle, 1), unit(middle, middle, 3, stride, groups),
                         unit(middle, outputs, 1, act=None))
    is_same = stride == 1 and inputs == outputs
    return Residual(body, None if is_same else unit(inputs, outputs, 1, stride, act=None))


def resnet101():
    layers = [unit(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for depth, middle, stride in ((3, 64, 1), (4, 128, 2), (23, 256, 2), (3, 512, 2)):
        for index in range(depth):
            layers.append(bottleneck(inputs, middle, 4 * middle, stride if index == 0 else 1))
            inputs = 4 * middle
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def regnet():
    layers, inputs = [unit(3, 32, 3, 2)], 32
    for depth, width in ((1, 32), (2, 64), (7, 160), (12, 400)):
        for index in range(depth):
            layers.append(bottleneck(inputs, width, width, 2 if index == 0 else 1, width // 16))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(400, 1000))


def mobilenet():
    layers, inputs = [unit(3, 32, 3, 2, act=nn.ReLU6)], 32
    for factor, outputs, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2),
                                           (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                           (6, 320, 1, 1)):
        for index in range(count):
            step, wide = stride if index == 0 else 1, inputs * factor
            parts = [unit(inputs, wide, 1, act=nn.ReLU6)] if factor > 1 else []
            parts += [unit(wide, wide, 3, step, wide, nn.ReLU6), unit(wide, outputs, 1, act=None)]
            body = nn.Sequential(*parts)
            layers.append(Residual(body, act=None) if step == 1 and inputs == outputs else body)
            inputs = outputs
    layers.append(unit(320, 1280, 1, act=nn.ReLU6))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2),
                         nn.Linear(1280, 1000))


def vgg16():
    layers, inputs = [], 3
    for width in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
        if width:
            layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU(inplace=True)]
            inputs = width
        else:
            layers.append(nn.MaxPool2d(2, 2))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(7), nn.Flatten(),
                         nn.Linear(25088, 4096), nn.ReLU(True), nn.Dropout(),
                         nn.Linear(4096, 4096), nn.ReLU(True), nn.Dropout(),
                         nn.Linear(4096, 1000))


class ChannelNorm(nn.LayerNorm):
    def forward(self, x):
        x = x.permute(0, 2, 3, 1)
        x = nn.functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class Permute(nn.Module):
    def __init__(self, *dims):
        super().__init__()
        self.dims = dims

    def forward(self, x):
        return torch.permute(x, self.dims)


class ConvNeXtBlock(nn.Module):
    def __init__(self, width, drop):
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(width, width, 7, padding=3, groups=width), Permute(0, 2, 3, 1),
            nn.LayerNorm(width, 1e-6), nn.Linear(width, 4 * width), nn.GELU(),
            nn.Linear(4 * width, width), Permute(0, 3, 1, 2))
        self.scale = nn.Parameter(torch.ones(width, 1, 1) * 1e-6)
        self.drop = drop

    def forward(self, x):
        out = self.scale * self.block(x)
        if self.training and self.drop:
            noise = torch.empty((x.shape[0], 1, 1, 1), dtype=x.dtype, device=x.device)
            noise = noise.bernoulli_(1 - self.drop).div_(1 - self.drop)
            out = out * noise
        out += x
        return out


def convnext(width, depths, drop):
    layers = [nn.Conv2d(3, width, 4, 4), ChannelNorm(width, 1e-6)]
    total, done = sum(depths), 0
    for index, depth in enumerate(depths):
        for _ in range(depth):
            layers.append(ConvNeXtBlock(width, drop * done / (total - 1)))
            done += 1
        if index < 3:
            layers += [ChannelNorm(width, 1e-6), nn.Conv2d(width, 2 * width, 2, 2)]
            width *= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), ChannelNorm(width, 1e-6),
                         nn.Flatten(), nn.Linear(width, 1000))


MODELS = {
    "ResNet101": resnet101, "RegNetX400MF": regnet, "MobileNetV2": mobilenet, "VGG16": vgg16,
    "ConvNeXtTiny": functools.partial(convnext, 96, (3, 3, 9, 3), 0.1),
    "ConvNeXtBase": functools.partial(convnext, 128, (3, 3, 27, 3), 0.5),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, default="RegNetX400MF")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--optimizer", default="SGD")
    parser.add_argument("--steps", type=int, default=4)
    options = parser.parse_args()
    device = torch.device("cuda")
    model = MODELS[options.model]()
    model.train()
    optimizer = getattr(torch.optim, options.optimizer)(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    model.to(device)
    loss_of = nn.CrossEntropyLoss()
    for _ in range(options.steps):
        optimizer.zero_grad()
        images = torch.randn(options.batch, 3, 86, 86).to(device)
        labels = torch.randint(0, 1000, (options.batch,)).to(device)
        outputs = model(images)
        loss = loss_of(outputs, labels)
        loss.backward()
        optimizer.step()
        scheduler.step()


if __name__ == "__main__":
    main()

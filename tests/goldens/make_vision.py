"""Oracles of the vision models: a tiny random ViT of HF transformers, and torchvision's ResNet blocks.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 torchvision==0.29.2 transformers==4.57.1 safetensors
    python make_vision.py

Conventions (names, configuration) are those of shared.py. Dropout 0, all in float32. Images are [batch, channel, row,
column], patches and grid positions row by row.

vit.safetensors, `ViTForImageClassification` (two pre-LN layers, erf GELU, epsilon 1e-12, a final norm, the classifier
on the class token): `pixel_values` [3, 3, 12, 12], patches of 4, `labels` [3]; `last_hidden_state` [3, 10, 24] (after
the final norm, the class token first), `logits` [3, 5], `loss` (mean cross-entropy). The patch projection is the
convolution `vit.embeddings.patch_embeddings.projection` [24, 3, 4, 4]; `vit.embeddings.position_embeddings` is [1,
10, 24].

vit_resized.safetensors: the weights of vit.safetensors (not stored again) on `pixel_values` [3, 3, 20, 20], with HF's
interpolate_pos_encoding: `position_embeddings` [1, 26, 24] is the table it computes (the class token's row unchanged,
the 3 x 3 grid resampled to 5 x 5 by bicubic interpolation without aligned corners), `last_hidden_state` [3, 26, 24], `logits`,
`labels`, `loss`, and `grad.<name>` of all weights, of the 3 x 3 table through the interpolation.

resnet.safetensors has cases, each with a prefix:

    basic       BasicBlock(6, 6)                                                       input [2, 6, 6, 6]
    basic_down  BasicBlock(6, 8, stride 2), 1 x 1 convolution and norm on the shortcut   input [2, 6, 7, 7]
    bottleneck  Bottleneck(12, 4 -> 16, stride 2 on the 3 x 3 convolution), shortcut as above  input [2, 12, 6, 6]
    stem        7 x 7 convolution of stride 2 and padding 3, norm, ReLU, 3 x 3 max pooling of stride 2 and padding 1
                                                                                       input [2, 3, 11, 12]
    net         3 x 3 convolution, norm, ReLU, `layer1` BasicBlock(8, 8), `layer2` BasicBlock(8, 16, stride 2),
                mean over the image, `fc` to 5 classes                                 input [4, 3, 8, 8]

`<case>.weight.<name>` are torchvision's names, with the norms' running_mean and running_var as they are before a
step; `<case>.input`; then for each mode (`train`: statistics of the batch, `eval`: the running ones)
`<case>.<mode>.output`, `<case>.<mode>.loss`, `<case>.<mode>.grad.<name>` of the parameters, and
`<case>.<mode>.grad_input`; and `<case>.running.<norm>.running_mean` (and running_var) after one forward pass in train
mode from the state in `weight.`: momentum 0.1, the variance of the batch unbiased there (but biased where it
normalizes). The loss of a block is sum(output * `<case>.cotangent`), that of the net the mean cross-entropy of
`net.labels`. Norms have epsilon 1e-5.
"""

import torch
import torchvision
import transformers as hf
from shared import begin, gradients, redraw, seeded, weights, write
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

CLASSES = 5


def vit():
    generator = seeded("vit")
    config = hf.ViTConfig(
        image_size=12,
        patch_size=4,
        num_channels=3,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=40,
        layer_norm_eps=1e-12,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=CLASSES,
        attn_implementation="eager",
    )
    config.architectures = ["ViTForImageClassification"]
    model = hf.ViTForImageClassification(config).eval()
    redraw(model, generator)
    labels = torch.tensor([3, 0, 4])
    for name, size in [("vit", 12), ("vit_resized", 20)]:
        resized = size != config.image_size
        images = torch.randn(3, 3, size, size, generator=generator)
        model.zero_grad()
        logits = model(images, interpolate_pos_encoding=resized).logits
        hidden = model.vit(images, interpolate_pos_encoding=resized).last_hidden_state
        loss = torch.nn.functional.cross_entropy(logits, labels)
        loss.backward()
        tensors = {"pixel_values": images, "labels": labels, "last_hidden_state": hidden, "logits": logits}
        tensors["loss"] = loss
        if resized:
            embeddings = model.vit.embeddings
            patches = embeddings.patch_embeddings(images, interpolate_pos_encoding=True)
            tokens = torch.cat([embeddings.cls_token.expand(3, -1, -1), patches], dim=1)
            tensors["position_embeddings"] = embeddings.interpolate_pos_encoding(tokens, size, size)
        else:
            tensors |= weights(model)
        write(name, tensors | gradients(model), config)


def shortcut(inputs, outputs, stride):
    convolution = torch.nn.Conv2d(inputs, outputs, 1, stride, bias=False)
    return torch.nn.Sequential(convolution, torch.nn.BatchNorm2d(outputs))


class Stem(torch.nn.Module):
    """The stem of torchvision's ResNet, 6 channels wide."""

    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 6, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(6)
        self.relu = torch.nn.ReLU()
        self.maxpool = torch.nn.MaxPool2d(kernel_size=3, stride=2, padding=1)

    def forward(self, x):
        return self.maxpool(self.relu(self.bn1(self.conv1(x))))


class Net(torch.nn.Module):
    """A ResNet for small images, its stages made by torchvision's own `_make_layer`."""

    _make_layer = ResNet._make_layer

    def __init__(self):
        super().__init__()
        self._norm_layer, self.groups, self.base_width, self.dilation = torch.nn.BatchNorm2d, 1, 64, 1
        self.inplanes = 8
        self.conv1 = torch.nn.Conv2d(3, 8, kernel_size=3, padding=1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(8)
        self.layer1 = self._make_layer(BasicBlock, 8, 1)
        self.layer2 = self._make_layer(BasicBlock, 16, 1, stride=2)
        self.fc = torch.nn.Linear(16, CLASSES)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        return self.fc(self.layer2(self.layer1(x)).mean(dim=(2, 3)))


CASES = {
    "basic": (lambda: BasicBlock(6, 6), [2, 6, 6, 6]),
    "basic_down": (lambda: BasicBlock(6, 8, stride=2, downsample=shortcut(6, 8, 2)), [2, 6, 7, 7]),
    "bottleneck": (lambda: Bottleneck(12, 4, stride=2, downsample=shortcut(12, 16, 2)), [2, 12, 6, 6]),
    "stem": (Stem, [2, 3, 11, 12]),
    "net": (Net, [4, 3, 8, 8]),
}


def running(model, prefix):
    return {prefix + name: b.clone() for name, b in model.named_buffers() if "running" in name}


def redraw_statistics(model, generator):
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            buffer.copy_(0.3 * torch.randn(buffer.shape, generator=generator))
        elif name.endswith("running_var"):
            buffer.copy_(0.5 + torch.rand(buffer.shape, generator=generator))


def resnet():
    tensors = {}
    for case, (make, shape) in CASES.items():
        generator = seeded("resnet " + case)
        model = make()
        redraw(model, generator)
        redraw_statistics(model, generator)
        image = torch.randn(shape, generator=generator).requires_grad_()
        tensors |= weights(model, case + ".weight.") | running(model, case + ".weight.")
        tensors[case + ".input"] = image
        labels = torch.tensor([1, 4, 0, 2])
        cotangent = torch.randn(model.eval()(image).shape, generator=generator)
        if case == "net":
            tensors["net.labels"] = labels
        else:
            tensors[case + ".cotangent"] = cotangent
        # The pass in train mode moves the running statistics, so it comes last.
        for mode in ["eval", "train"]:
            model.train(mode == "train").zero_grad()
            image.grad = None
            output = model(image)
            is_net = case == "net"
            loss = torch.nn.functional.cross_entropy(output, labels) if is_net else (output * cotangent).sum()
            loss.backward()
            prefix = f"{case}.{mode}."
            tensors |= {prefix + "output": output, prefix + "loss": loss, prefix + "grad_input": image.grad.clone()}
            tensors |= gradients(model, prefix + "grad.")
        tensors |= running(model, case + ".running.")
    write("resnet", tensors, {"architectures": ["ResNet"], "cases": list(CASES)})


if __name__ == "__main__":
    begin(torch, torchvision, hf)
    vit()
    resnet()

"""Recurrent layers and attention with given weights; default initialisations."""

import torch
import torch.nn.functional as F

from record import CASES, case, ints, record


def module_case(name, module, x, **options):
    """A module with its weights as further inputs, in the order of its state dict."""
    names = list(module.state_dict())

    def f(x, *weights):
        module.to(x.dtype)
        out = torch.func.functional_call(module, dict(zip(names, weights)), (x,))
        return flatten(out)

    case(name, f, x, *[w.detach().clone() for w in module.state_dict().values()])
    CASES[name] = {**options, "weights": names}


def flatten(out):
    if isinstance(out, torch.Tensor):
        return [out]
    return [t for part in out for t in flatten(part)]


def modules():
    torch.manual_seed(2)
    lstm, gru = torch.nn.LSTM, torch.nn.GRU
    module_case("lstm/one_layer", lstm(3, 4, batch_first=True), (2, 5, 3), input=3, hidden=4, layers=1, bidirectional=False)
    module_case("lstm/two_layers", lstm(3, 4, 2, batch_first=True), (2, 4, 3), input=3, hidden=4, layers=2, bidirectional=False)
    module_case("lstm/bidirectional", lstm(3, 2, bidirectional=True, batch_first=True), (2, 4, 3), input=3, hidden=2, layers=1, bidirectional=True)
    module_case("gru/one_layer", gru(3, 4, batch_first=True), (2, 5, 3), input=3, hidden=4, layers=1, bidirectional=False)
    module_case("gru/two_layers", gru(3, 4, 2, batch_first=True), (2, 4, 3), input=3, hidden=4, layers=2, bidirectional=False)
    module_case("gru/bidirectional", gru(3, 2, bidirectional=True, batch_first=True), (2, 4, 3), input=3, hidden=2, layers=1, bidirectional=True)
    options = dict(batch_first=True, num_layers=2, bidirectional=True)
    for name, kind in (("lstm", lstm), ("gru", gru), ("rnn", torch.nn.RNN)):
        extra = dict(relu=False) if name == "rnn" else {}
        module = Padded(kind(3, 4, **options), lengths=[3, 5, 1])
        module_case(f"{name}/padded", module, (3, 5, 3), input=3, hidden=4, layers=2, bidirectional=True, lengths=[3, 5, 1], **extra)
    for tag, options in (
        ("plain", dict(causal=False)),
        ("causal", dict(causal=True)),
        ("padded", dict(causal=False, lengths=[3, 5])),
        ("padded_causal", dict(causal=True, lengths=[5, 2])),
    ):
        mha = torch.nn.MultiheadAttention(6, 2, batch_first=True)
        torch.nn.init.normal_(mha.in_proj_bias)
        torch.nn.init.normal_(mha.out_proj.bias)
        module_case(f"multi_head_attention/{tag}", SelfAttention(mha, **options), (2, 5, 6), heads=2, **options)
    for first in (False, True):
        for activation in ("relu", "gelu"):
            options = dict(norm_first=first, activation=activation)
            tag = f"{activation}_{'pre' if first else 'post'}"
            encoder = torch.nn.TransformerEncoderLayer(6, 2, 10, dropout=0.0, batch_first=True, **options)
            module_case(f"transformer_encoder_layer/{tag}", spread(encoder), (2, 5, 6), **options)
            decoder = torch.nn.TransformerDecoderLayer(6, 2, 10, dropout=0.0, batch_first=True, **options)
            module_case(f"transformer_decoder_layer/{tag}", Decoder(spread(decoder)), (2, 5, 6), **options)
    case("weight_norm_layer/plain", lambda v, g: torch._weight_norm(v, g, 0), (3, 4, 2), (3, 1, 1))
    case("spectral_norm_layer/plain", spectral_norm, (3, 4, 2), (8,))
    for tag, weights in (("shared", 1), ("per_channel", 3)):
        module_case(f"prelu_layer/{tag}", torch.nn.PReLU(weights), (2, 3, 4, 2), count=weights)
    norm = torch.nn.InstanceNorm2d(3, eps=1e-3, affine=True)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    module_case("instance_norm_layer/affine", norm, (2, 3, 4, 5), channels=3, eps=1e-3)
    lookup = lambda i, w, padding: F.embedding(i, w, padding_idx=padding)
    case("embedding_padding/first", lookup, ints([[2, 1, 0], [3, 0, 0]]), (4, 3), padding=0)
    case("embedding_padding/negative", lookup, ints([3, 1, 3]), (4, 3), padding=-1)
    rnn = torch.nn.RNN
    module_case("rnn/two_layers", rnn(3, 4, 2, batch_first=True), (2, 4, 3), input=3, hidden=4, layers=2, bidirectional=False, relu=False)
    both = rnn(3, 2, bidirectional=True, batch_first=True, nonlinearity="relu")
    module_case("rnn/bidirectional_relu", both, (2, 4, 3), input=3, hidden=2, layers=1, bidirectional=True, relu=True)
    module_case("lstm_cell_twice", twice(torch.nn.LSTMCell)(3, 4), (2, 3), input=3, hidden=4)
    module_case("gru_cell_twice", twice(torch.nn.GRUCell)(3, 4), (2, 3), input=3, hidden=4)
    module_case("rnn_cell_twice/tanh", twice(torch.nn.RNNCell)(3, 4), (2, 3), input=3, hidden=4, relu=False)
    module_case("rnn_cell_twice/relu", twice(torch.nn.RNNCell)(3, 4, nonlinearity="relu"), (2, 3), input=3, hidden=4, relu=True)
    for name, kind in (("lstm", lstm), ("gru", gru), ("rnn", rnn)):
        extra = dict(relu=False) if name == "rnn" else {}
        options = dict(num_layers=2, bidirectional=True, bias=False, batch_first=True)
        module_case(f"{name}/no_bias", kind(3, 4, **options), (2, 5, 3), input=3, hidden=4, layers=2, bidirectional=True, bias=False, **extra)
    module_case("lstm_cell_twice/no_bias", twice(torch.nn.LSTMCell)(3, 4, bias=False), (2, 3), input=3, hidden=4, bias=False)
    mha = torch.nn.MultiheadAttention(6, 2, bias=False, batch_first=True)
    module_case("multi_head_attention/no_bias", SelfAttention(mha, causal=True), (2, 5, 6), heads=2, causal=True, bias=False)
    for averaged in (False, True):
        mha = torch.nn.MultiheadAttention(6, 2, kdim=4, vdim=3, batch_first=True)
        torch.nn.init.normal_(mha.in_proj_bias)
        tag = "averaged" if averaged else "each_head"
        module_case(f"attention_weights/{tag}", Weighing(mha, averaged), (2, 5, 6), heads=2, averaged=averaged)


def twice(kind):
    """A cell that takes the same step from zeros and from where it got."""
    return type("Twice", (kind,), {"forward": lambda self, x: kind.forward(self, x, kind.forward(self, x))})


class Padded(torch.nn.Module):
    """A recurrent layer over sequences that end after so many steps each."""

    def __init__(self, layer, lengths):
        super().__init__()
        self.layer = layer
        self.lengths = lengths

    def forward(self, x):
        pack = torch.nn.utils.rnn.pack_padded_sequence
        y, state = self.layer(pack(x, self.lengths, batch_first=True, enforce_sorted=False))
        return torch.nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])[0], state


class SelfAttention(torch.nn.Module):
    def __init__(self, mha, causal, lengths=None):
        super().__init__()
        self.mha, self.causal, self.lengths = mha, causal, lengths

    def forward(self, x):
        steps = x.shape[1]
        hidden = torch.triu(torch.ones(steps, steps, dtype=torch.bool), 1) if self.causal else None
        padding = torch.arange(steps) >= torch.tensor(self.lengths)[:, None] if self.lengths else None
        return self.mha(x, x, x, need_weights=False, attn_mask=hidden, key_padding_mask=padding)[0]


class Weighing(torch.nn.Module):
    """Attention to parts of the queries, with its weights."""

    def __init__(self, mha, averaged):
        super().__init__()
        self.mha, self.averaged = mha, averaged

    def forward(self, x):
        return self.mha(x, x[:, :4, :4], x[:, :4, 3:], average_attn_weights=self.averaged)


def spectral_norm(weight, right):
    """What the first forward pass in training gives, from this right singular vector."""
    layer = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Conv1d(4, 3, 2)).to(weight.dtype)
    norm = layer.parametrizations.weight[0]
    with torch.no_grad():
        norm._v.copy_(right)
    return norm(weight)


def spread(module):
    """With biases and normalisations that are not 0 and 1."""
    for parameter in module.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter)
    return module


class Decoder(torch.nn.Module):
    """A causal decoder that attends to some positions of a part of its own input."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        later = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), 1)
        hidden = torch.tensor([[False, False, True], [False, True, False]])
        return self.layer(x, x[:, :3], tgt_mask=later, memory_key_padding_mask=hidden)


def initialisations():
    """Least, largest, mean and standard deviation of PyTorch's default initialisation of each parameter."""
    torch.manual_seed(3)
    table = {
        "linear": (torch.nn.Linear(512, 256), dict(input=512, output=256)),
        "conv1d": (torch.nn.Conv1d(64, 128, 5), dict(input=64, output=128, kernel=5)),
        "conv2d": (torch.nn.Conv2d(32, 128, 3), dict(input=32, output=128, kernel=3)),
        "conv_transpose2d": (torch.nn.ConvTranspose2d(32, 128, 3), dict(input=32, output=128, kernel=3)),
        "embedding": (torch.nn.Embedding(512, 64), dict(count=512, width=64)),
        "lstm": (torch.nn.LSTM(128, 64), dict(input=128, hidden=64)),
        "gru": (torch.nn.GRU(128, 64), dict(input=128, hidden=64)),
        "multi_head_attention": (torch.nn.MultiheadAttention(128, 4), dict(width=128, heads=4)),
        "layer_norm": (torch.nn.LayerNorm(64), dict(width=64)),
        "batch_norm2d": (torch.nn.BatchNorm2d(64), dict(channels=64)),
    }
    for name, (module, options) in table.items():
        stats = {}
        for parameter, w in module.named_parameters():
            w = w.detach()
            stats[parameter] = torch.stack([w.min(), w.max(), w.mean(), w.std(correction=0)])
        record(f"init/{name}", stats, **options, parameters=list(stats))

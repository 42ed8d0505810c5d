// Steps of recurrent layers behind their products, and their gradients, in float: a thread has an element of the state.
//
// `from_inputs` and `from_state` are summands of what goes into the gates, a row of which has all elements of one gate after
// those of another. The formulas mirror the CPU kernels'.
#include "common.cuh"

// Where element `i` of the state has the first of its gates, in rows of `gates` times the state's width.
__device__ inline i64 first_gate(i64 i, i64 width, int gates) { return i + divide(i, width) * (gates - 1) * width; }

// -------------------------------------------------------------------------------------------------------------------
// LSTM: gates in, forget, new, out

struct LstmArgs {
    Operand from_inputs, from_state;  // [N, 4 H]
    Operand c;                        // [N, H]
    float* states;                    // [2, N, H], hidden and cell
    float* gates;                     // [N, 4 H]
    i64 n;                            // N H
    i64 width;                        // H
};

KERNEL(lstm_cell, LstmArgs) {
    FOR_EACH(i, a.n) {
        i64 at = first_gate(i, a.width, 4);
        float gate[4];
        for (int g = 0; g < 4; ++g) {
            i64 k = at + g * a.width;
            float sum = load<float>(a.from_inputs, k) + load<float>(a.from_state, k);
            a.gates[k] = gate[g] = g == 2 ? tanh_of(sum) : sigmoid(sum);
        }
        float c = gate[1] * load<float>(a.c, i) + gate[0] * gate[2];
        a.states[i] = gate[3] * tanh_of(c);
        a.states[a.n + i] = c;
    }
}

struct LstmGradArgs {
    Operand gates, states, c;  // as the step made and had them
    Operand grad;              // of the states
    void* of_gates;            // [N, 4 H], of either summand
    float* of_c;
    i64 n;
    i64 width;
    int out;
};

KERNEL(lstm_cell_grad, LstmGradArgs) {
    FOR_EACH(i, a.n) {
        i64 at = first_gate(i, a.width, 4);
        float gate[4];
        for (int g = 0; g < 4; ++g) gate[g] = load<float>(a.gates, at + g * a.width);
        float in = gate[0], forget = gate[1], fresh = gate[2], out = gate[3];
        float shown = tanh_of(load<float>(a.states, a.n + i)), of_h = load<float>(a.grad, i);
        float of_cell = load<float>(a.grad, a.n + i) + of_h * out * (1 - shown * shown);
        float of[4] = {
            of_cell * fresh * in * (1 - in),
            of_cell * load<float>(a.c, i) * forget * (1 - forget),
            of_cell * in * (1 - fresh * fresh),
            of_h * shown * out * (1 - out),
        };
        for (int g = 0; g < 4; ++g) store_as(a.of_gates, a.out, at + g * a.width, of[g]);
        a.of_c[i] = of_cell * forget;
    }
}

// -------------------------------------------------------------------------------------------------------------------
// GRU: gates reset, keep, new; what is kept of a step has the state's part of new behind them

struct GruArgs {
    Operand from_inputs, from_state;  // [N, 3 H]
    Operand h;                        // [N, H]
    void* next;                       // [N, H]
    float* gates;                     // [N, 4 H]
    i64 n;
    i64 width;
    int out;
};

KERNEL(gru_cell, GruArgs) {
    FOR_EACH(i, a.n) {
        i64 at = first_gate(i, a.width, 3), to = first_gate(i, a.width, 4);
        float of_inputs[3], of_state[3];
        for (int g = 0; g < 3; ++g) {
            of_inputs[g] = load<float>(a.from_inputs, at + g * a.width);
            of_state[g] = load<float>(a.from_state, at + g * a.width);
        }
        float reset = sigmoid(of_inputs[0] + of_state[0]), keep = sigmoid(of_inputs[1] + of_state[1]);
        float fresh = tanh_of(of_inputs[2] + reset * of_state[2]), kept[4] = {reset, keep, fresh, of_state[2]};
        for (int g = 0; g < 4; ++g) a.gates[to + g * a.width] = kept[g];
        store_as(a.next, a.out, i, fresh + keep * (load<float>(a.h, i) - fresh));
    }
}

struct GruGradArgs {
    Operand gates, h;    // as the step made and had them
    Operand grad;        // of the state after it
    void* of_inputs;     // [N, 3 H]
    void* of_state;
    void* of_h;
    i64 n;
    i64 width;
    int out[3];
};

KERNEL(gru_cell_grad, GruGradArgs) {
    FOR_EACH(i, a.n) {
        i64 at = first_gate(i, a.width, 4), to = first_gate(i, a.width, 3);
        float gate[4];
        for (int g = 0; g < 4; ++g) gate[g] = load<float>(a.gates, at + g * a.width);
        float reset = gate[0], keep = gate[1], fresh = gate[2], grad = load<float>(a.grad, i);
        float of_new = grad * (1 - keep) * (1 - fresh * fresh);
        float of[3] = {
            of_new * gate[3] * reset * (1 - reset),
            grad * (load<float>(a.h, i) - fresh) * keep * (1 - keep),
            of_new,
        };
        for (int g = 0; g < 3; ++g) {
            store_as(a.of_inputs, a.out[0], to + g * a.width, of[g]);
            store_as(a.of_state, a.out[1], to + g * a.width, g == 2 ? of_new * reset : of[g]);
        }
        store_as(a.of_h, a.out[2], i, grad * keep);
    }
}

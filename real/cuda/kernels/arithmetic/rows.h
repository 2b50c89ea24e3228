// The arithmetic of operators that work row by row (see arithmetic.h): norms, activations, rotation and softmax.
#pragma once

#include "real/cuda/kernels/arithmetic.h"

namespace plumbline::real::cuda {

// --- Norms: y = gamma * scale * (x - mean), scale = 1 / deviation ---

PLUMBLINE_HOST_DEVICE inline float rms_inverse(float sum_of_squares, std::int64_t columns, float epsilon) {
  return 1.0f / sqrtf(sum_of_squares / static_cast<float>(columns) + epsilon);
}

// dx of one element, where `d` is dy * gamma. mean_d is the row's mean of d (0 if the mean is not subtracted); along is
// the row's mean of d * (x - mean), times scale^2.
PLUMBLINE_HOST_DEVICE inline float norm_input_gradient(float d, float centered, float scale, float mean_d,
                                                       float along) {
  return scale * (d - mean_d - along * centered);
}

// --- Activations ---

PLUMBLINE_HOST_DEVICE inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

PLUMBLINE_HOST_DEVICE inline float swiglu(float gate, float up) { return gate / (1.0f + expf(-gate)) * up; }

struct SwigluGradient {
  float gate, up;  // for a row weight of 1
  float weight;    // this element's part of the row weight's gradient
};

PLUMBLINE_HOST_DEVICE inline SwigluGradient swiglu_gradient(float d_hidden, float gate, float up) {
  const float s = sigmoid(gate);
  const float d_up = d_hidden * gate * s;
  return {d_hidden * up * s * (1.0f + gate * (1.0f - s)), d_up, d_up * up};
}

// The standard normal distribution.
PLUMBLINE_HOST_DEVICE inline float normal_distribution(float x) { return 0.5f * erfcf(x * -0.70710678118654752f); }
PLUMBLINE_HOST_DEVICE inline float normal_density(float x) { return 0.39894228040143268f * expf(-0.5f * x * x); }

PLUMBLINE_HOST_DEVICE inline float gelu(float x) { return x * normal_distribution(x); }
PLUMBLINE_HOST_DEVICE inline float gelu_gradient(float dy, float x) {
  return dy * (normal_distribution(x) + x * normal_density(x));
}

// --- Rotation by position ---

struct Rotation {
  float cosine, sine;
};

// The rotation of pair `i` of rope_dim / 2 pairs: position * theta^(-2i / rope_dim). It is computed in turns, in double
// precision until whole turns are removed, so that far positions are as exact as near ones.
PLUMBLINE_HOST_DEVICE inline Rotation rotation(std::int64_t position, std::int64_t i, std::int64_t rope_dim,
                                               double log2_theta) {
  const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(rope_dim) * log2_theta;
  const double turns = static_cast<double>(position) * exp2(exponent) * 0.15915494309189533577;  // 1 / (2 pi)
  const auto angle = static_cast<float>((turns - rint(turns)) * 6.2831853071795864769);
  return {cosf(angle), sinf(angle)};
}

// --- Softmax over the keys that a query sees ---

struct KeyRange {
  std::int64_t begin, end;
};

// The keys that query `place` of its sequence sees: itself and those before it, at most `window` keys (0: all).
PLUMBLINE_HOST_DEVICE inline KeyRange seen_keys(std::int64_t place, std::int64_t window) {
  const std::int64_t first = place - window + 1;
  return {window > 0 && first > 0 ? first : 0, place + 1};
}

}  // namespace plumbline::real::cuda

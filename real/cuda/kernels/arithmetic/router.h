// The choice of experts, as inline functions for the host and the device compiler. A token's scores lie in the
// registers of a group of lanes, expert e in lane e % lanes: a warp on the device, a single lane in tests. `Lanes` is
// that group:
//   index(), count()     this lane, and the number of lanes
//   largest(key)         the largest key of all lanes, in every lane; likewise largest(float) and sum(float)
//   from(value, lane)    the value of one lane, in every lane
#pragma once

#include <cmath>
#include <cstdint>

#include "real/cuda/kernels/arithmetic.h"

namespace plumbline::real::cuda {

// The rule of a router (model::RouterAttributes).
struct RouterRule {
  int experts = 0, experts_per_token = 0, groups = 1, groups_per_token = 1;
  int group_score_experts = 1;
  bool sigmoid = false;  // else softmax
  bool normalize = false;
  float scaling_factor = 1;
};

// --- Keys: the larger of two has the larger value or, of equal values, the lower index ---

constexpr std::uint64_t no_choice = 0;  // smaller than all keys
constexpr float lowest_score = -INFINITY;

// NaN counts as the lowest value, -0 as 0.
PLUMBLINE_HOST_DEVICE inline std::uint64_t choice_key(float value, int index) {
  const std::uint32_t bits = bits_of(value == value ? value + 0.0f : lowest_score);
  const std::uint32_t ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<std::uint64_t>(ordered) << 32 | (0xffffffffu - static_cast<std::uint32_t>(index));
}
PLUMBLINE_HOST_DEVICE inline int key_index(std::uint64_t key) {
  return static_cast<int>(0xffffffffu - static_cast<std::uint32_t>(key));
}
PLUMBLINE_HOST_DEVICE inline float key_value(std::uint64_t key) {
  const auto ordered = static_cast<std::uint32_t>(key >> 32);
  return float_of((ordered & 0x80000000u) != 0 ? ordered & 0x7fffffffu : ~ordered);
}

// --- Scores: computed in place from the logits that a lane holds; kHeld is the number of experts per lane ---

template <int kHeld, class Lanes>
PLUMBLINE_HOST_DEVICE void router_scores(const RouterRule& rule, const Lanes& lanes, float (&scores)[kHeld]) {
  if (rule.sigmoid) {
    PLUMBLINE_UNROLL
    for (int i = 0; i < kHeld; ++i) scores[i] = 1.0f / (1.0f + expf(-scores[i]));
    return;
  }
  float largest = lowest_score, sum = 0.0f;
  PLUMBLINE_UNROLL
  for (int i = 0; i < kHeld; ++i)
    if (lanes.index() + i * lanes.count() < rule.experts) largest = fmaxf(largest, scores[i]);
  largest = lanes.largest(largest);
  PLUMBLINE_UNROLL
  for (int i = 0; i < kHeld; ++i) {
    const bool is_expert = lanes.index() + i * lanes.count() < rule.experts;
    scores[i] = is_expert ? expf(scores[i] - largest) : 0.0f;
    sum += scores[i];
  }
  sum = lanes.sum(sum);
  PLUMBLINE_UNROLL
  for (int i = 0; i < kHeld; ++i) scores[i] /= sum;
}

// Returns the score of one expert in every lane.
template <int kHeld, class Lanes>
PLUMBLINE_HOST_DEVICE float score_of(const Lanes& lanes, const float (&scores)[kHeld], int expert) {
  float found = 0.0f;
  PLUMBLINE_UNROLL
  for (int i = 0; i < kHeld; ++i)
    if (i == expert / lanes.count()) found = scores[i];
  return lanes.from(found, expert % lanes.count());
}

// --- The choice ---

// Returns the expert with the largest key and clears its key, so that it is not chosen again.
template <int kHeld, class Lanes>
PLUMBLINE_HOST_DEVICE int take_largest(const Lanes& lanes, std::uint64_t (&keys)[kHeld]) {
  std::uint64_t best = no_choice;
  PLUMBLINE_UNROLL
  for (int i = 0; i < kHeld; ++i) best = keys[i] > best ? keys[i] : best;
  best = lanes.largest(best);
  PLUMBLINE_UNROLL
  for (int i = 0; i < kHeld; ++i)
    if (keys[i] == best) keys[i] = no_choice;
  return key_index(best);
}

// Returns the sum of the `count` best scores of experts from .. from + width - 1, largest first.
template <int kHeld, class Lanes>
PLUMBLINE_HOST_DEVICE float sum_of_best(const Lanes& lanes, const std::uint64_t (&keys)[kHeld], int from, int width,
                                        int count) {
  float sum = 0.0f;
  std::uint64_t last = ~no_choice;
  for (int n = 0; n < count; ++n) {
    std::uint64_t best = no_choice;
    PLUMBLINE_UNROLL
    for (int i = 0; i < kHeld; ++i) {
      const int expert = lanes.index() + i * lanes.count();
      const bool is_left = expert >= from && expert < from + width && keys[i] < last;
      if (is_left && keys[i] > best) best = keys[i];
    }
    last = lanes.largest(best);
    sum += last == no_choice ? lowest_score : key_value(last);
  }
  return sum;
}

// Gives experts outside of the best groups the lowest keys.
template <int kHeld, class Lanes>
PLUMBLINE_HOST_DEVICE void keep_best_groups(const RouterRule& rule, const Lanes& lanes, std::uint64_t (&keys)[kHeld]) {
  const int width = rule.experts / rule.groups;
  std::uint64_t groups[kHeld];
  PLUMBLINE_UNROLL
  for (int i = 0; i < kHeld; ++i) groups[i] = no_choice;
  for (int group = 0; group < rule.groups; ++group) {
    const float sum = sum_of_best(lanes, keys, group * width, width, rule.group_score_experts);
    PLUMBLINE_UNROLL
    for (int i = 0; i < kHeld; ++i)
      if (lanes.index() + i * lanes.count() == group) groups[i] = choice_key(sum, group);
  }
  bool kept[kHeld] = {};
  for (int n = 0; n < rule.groups_per_token; ++n) {
    const int group = take_largest(lanes, groups);
    PLUMBLINE_UNROLL
    for (int i = 0; i < kHeld; ++i)
      if ((lanes.index() + i * lanes.count()) / width == group) kept[i] = true;
  }
  PLUMBLINE_UNROLL
  for (int i = 0; i < kHeld; ++i)
    if (keys[i] != no_choice && !kept[i]) keys[i] = choice_key(lowest_score, lanes.index() + i * lanes.count());
}

// Chooses by scores + bias; emit(slot, expert, score) is called by every lane. Returns the sum of the chosen scores.
template <int kHeld, class Lanes, class Emit>
PLUMBLINE_HOST_DEVICE float choose_experts(const RouterRule& rule, const Lanes& lanes, const float (&scores)[kHeld],
                                           const float* bias, const Emit& emit) {
  std::uint64_t keys[kHeld];
  PLUMBLINE_UNROLL
  for (int i = 0; i < kHeld; ++i) {
    const int expert = lanes.index() + i * lanes.count();
    keys[i] = expert < rule.experts ? choice_key(scores[i] + bias[expert], expert) : no_choice;
  }
  if (rule.groups > 1) keep_best_groups(rule, lanes, keys);
  float total = 0.0f;
  for (int slot = 0; slot < rule.experts_per_token; ++slot) {
    const int expert = take_largest(lanes, keys);
    const float score = score_of(lanes, scores, expert);
    total += score;
    emit(slot, expert, score);
  }
  return total;
}

PLUMBLINE_HOST_DEVICE inline float router_factor(const RouterRule& rule, float total) {
  return rule.normalize ? rule.scaling_factor / total : rule.scaling_factor;
}

// --- The gradient of the logits that a lane holds, from the gradients of a token's weights ---

template <int kHeld, class Lanes, class Expert, class Gradient>
PLUMBLINE_HOST_DEVICE void router_gradient(const RouterRule& rule, const Lanes& lanes, const float (&scores)[kHeld],
                                           const Expert& expert_of, const Gradient& gradient_of,
                                           float (&d_logits)[kHeld]) {
  float total = 0.0f, inner = 0.0f;
  for (int slot = 0; slot < rule.experts_per_token; ++slot) {
    const float score = score_of(lanes, scores, expert_of(slot));
    total += score;
    inner += gradient_of(slot) * score;
  }
  if (!rule.normalize) total = 1.0f;
  const float shift = rule.normalize ? inner / total : 0.0f;  // if normalized, each score lowers the other weights
  PLUMBLINE_UNROLL
  for (int i = 0; i < kHeld; ++i) d_logits[i] = 0.0f;
  float of_softmax = 0.0f;
  for (int slot = 0; slot < rule.experts_per_token; ++slot) {
    const int expert = expert_of(slot);
    const float d_score = rule.scaling_factor * (gradient_of(slot) - shift) / total;
    of_softmax += d_score * score_of(lanes, scores, expert);
    PLUMBLINE_UNROLL
    for (int i = 0; i < kHeld; ++i)
      if (lanes.index() + i * lanes.count() == expert) d_logits[i] = d_score;
  }
  PLUMBLINE_UNROLL
  for (int i = 0; i < kHeld; ++i)
    d_logits[i] = rule.sigmoid ? d_logits[i] * scores[i] * (1.0f - scores[i]) : scores[i] * (d_logits[i] - of_softmax);
}

}  // namespace plumbline::real::cuda

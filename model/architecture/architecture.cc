#include "model/architecture/architecture.h"

#include <algorithm>

namespace plumbline::model {

LayerKind Architecture::layer(std::int64_t number) const {
  const bool borrows = borrowed.layers > 0 && number >= layers - borrowed.layers;
  if (number < static_cast<std::int64_t>(pattern.size())) {
    LayerKind kind = pattern[static_cast<std::size_t>(number)];
    kind.borrows = borrows;
    return kind;
  }
  const bool moe = experts.routed_experts > 0 && number >= experts.dense_layers_first &&
                   number % experts.layer_frequency == experts.layer_offset &&
                   std::ranges::find(experts.dense_layers, number) == experts.dense_layers.end();
  const bool windowed = window.tokens > 0 && number >= window.first_layer &&
                        (window.full_every == 0 || (number + 1) % window.full_every != window.full_offset);
  return {windowed ? Mixer::windowed_attention : Mixer::attention, moe ? FeedForward::experts : FeedForward::dense,
          borrows};
}

std::int64_t Architecture::mlp_columns(LayerKind kind) const {
  return kind.borrows && borrowed.intermediate_size > 0 ? borrowed.intermediate_size : intermediate_size;
}

bool Architecture::has_dense_mlp() const {
  for (std::int64_t number = 0; number < layers; ++number)
    if (layer(number).feed_forward == FeedForward::dense) return true;
  return experts.with_dense;
}

HeadShape Architecture::head_shape(bool windowed) const {
  const auto own = [windowed](std::int64_t with_window, std::int64_t others) {
    return windowed && with_window > 0 ? with_window : others;
  };
  const std::int64_t dim = own(window.head_dim, head_dim), turning = own(window.rotary_dim, rotary_dim);
  return {.heads = own(window.heads, heads),
          .key_value_heads = own(window.key_value_heads, key_value_heads),
          .query_key_dim = dim,
          .value_dim = value_dim > 0 ? value_dim : dim,
          .rotary_dim = turning > 0 ? turning : dim};
}

}  // namespace plumbline::model

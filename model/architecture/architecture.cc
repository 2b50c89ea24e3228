#include "model/architecture/architecture.h"

#include <algorithm>

namespace plumbline::model {

LayerKind Architecture::layer(std::int64_t number) const {
  if (number < static_cast<std::int64_t>(pattern.size())) return pattern[static_cast<std::size_t>(number)];
  const bool moe = experts.routed_experts > 0 && number >= experts.dense_layers_first &&
                   number % experts.layer_frequency == experts.layer_offset &&
                   std::ranges::find(experts.dense_layers, number) == experts.dense_layers.end();
  const bool windowed = window.tokens > 0 && number >= window.first_layer &&
                        (window.full_every == 0 || (number + 1) % window.full_every != 0);
  return {windowed ? Mixer::windowed_attention : Mixer::attention, moe ? FeedForward::experts : FeedForward::dense};
}

}  // namespace plumbline::model

#include "real/executor/last_uses.h"

namespace plumbline::real {

namespace {

using model::Stream;

struct Uses {
  std::pair<std::int32_t, std::size_t> last;
  std::optional<Stream> only_user;
};

}  // namespace

LastUses find_last_uses(const RankState& rank, std::uint16_t template_index, const model::ScheduleOp& op) {
  std::map<std::pair<bool, std::uint32_t>, Uses> uses;  // by side of the slot and activation
  const std::vector<model::Segment>& segments = rank.program().templates[template_index].segments;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(segments.size()); ++i) {
    const model::Segment& segment = segments[static_cast<std::size_t>(i)];
    const Activations& activations = *rank.stages.at(segment.forward_side ? op.f_stage : op.b_stage).activations;
    const model::Graph& graph = rank.program().blocks[segment.block];
    const auto use = [&](model::TensorId id, std::size_t place) {
      const std::uint32_t index = activations.index(segment.block_of_stage, id);
      if (!activations.is_temporary(index)) return;
      Uses& known = uses.try_emplace({segment.forward_side, index}, Uses{{}, segment.stream}).first->second;
      if (known.only_user != segment.stream) known.only_user.reset();
      known.last = {i, place};
    };
    for (std::size_t place = 0; place < segment.operators.size(); ++place) {
      const model::Operator& one = graph.operators[segment.operators[place]];
      for (const model::TensorId id : one.reads) use(id, place);
      for (const model::TensorId id : one.writes) use(id, place);
    }
  }
  LastUses found;
  for (const auto& [tensor, known] : uses) found[known.last].push_back({tensor.first, tensor.second, known.only_user});
  return found;
}

}  // namespace plumbline::real

#include "real/executor/step_loss.h"

#include <algorithm>
#include <cmath>

namespace plumbline::real {

namespace {

using model::Operator;
using model::OperatorKind;

// Over a divided vocabulary it follows from what the ranks have added up.
double loss_of(const RankState& rank, const LocalStage& stage, std::uint16_t position, const Operator& op,
               std::int64_t key) {
  Activations& activations = *stage.activations;
  if (rank.input.plan->parallelism.tensor == 1)
    return rank.device().read(*activations.find(position, op.writes[0], key, true, model::Stream::compute))[0];
  const model::Graph& graph = stage.state->block(position);
  const auto reduction = std::ranges::find_if(graph.operators, [&](const Operator& candidate) {
    return candidate.kind == OperatorKind::all_reduce && candidate.reads[0] == op.writes[1];
  });
  const std::vector<float> figures =
      rank.device().read(*activations.find(position, reduction->writes[0], key, true, model::Stream::compute));
  double sum = 0, labelled = 0;
  for (std::size_t t = 0; t + 2 < figures.size(); t += 3) {
    if (figures[t + 2] == 0) continue;
    sum += std::log(static_cast<double>(figures[t])) - static_cast<double>(figures[t + 1]);
    ++labelled;
  }
  return labelled > 0 ? sum / labelled : 0;
}

}  // namespace

double summed_loss(const RankState& rank, const std::vector<MicroBatchPlace>& places) {
  const std::int32_t last = rank.program().schedule.stages - 1;
  const auto found = rank.stages.find(last);
  if (found == rank.stages.end()) return 0;
  const auto position = static_cast<std::uint16_t>(found->second.state->positions() - 1);
  double sum = 0;
  for (const MicroBatchPlace& place : places) {
    if (rank.program().schedule.rank_of(place.direction, last) != rank.place.pipeline) continue;
    for (const Operator& op : found->second.state->block(position).operators)
      if (op.kind == OperatorKind::cross_entropy && !op.recomputed)
        sum += loss_of(rank, found->second, position, op, rank.key(place.direction, place.micro_batch));
  }
  return sum;
}

}  // namespace plumbline::real

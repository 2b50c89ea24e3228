#include "model/graph/recompute.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace plumbline::model {
namespace {

class Recomputer {
 public:
  Recomputer(Graph& graph, const RecomputePolicy& policy, const std::map<TensorId, TensorId>& kept_as)
      : graph_(graph), kept_as_(kept_as) {
    const bool everything = policy.contains(RecomputeGroup::other);
    for (const Operator& op : graph.operators) {
      if (op.phase != Phase::F || !policy.contains(op.group)) continue;
      for (TensorId id : op.writes) dropped_[id] = op;
      if (everything || op.group == RecomputeGroup::moe) replayed_.push_back(op);
    }
    if (policy.contains(RecomputeGroup::early_stop)) stop_early();
  }

  void run() {
    for (Operator& op : std::exchange(graph_.operators, {})) {
      if (op.phase != Phase::F) replay();
      if (op.phase != Phase::F)
        for (TensorId& id : op.reads) id = restored(id, op);
      result_.push_back(std::move(op));
    }
    graph_.operators = std::move(result_);
  }

 private:
  void stop_early() {
    std::set<TensorId> read;
    for (const Operator& op : graph_.operators)
      if (op.phase != Phase::F) read.insert(op.reads.begin(), op.reads.end());
    const auto is_read = [&read](const Operator& op) {
      return std::ranges::any_of(op.writes, [&read](TensorId id) { return read.contains(id); });
    };
    while (!replayed_.empty() && !is_read(replayed_.back())) replayed_.pop_back();
  }

  void replay() {
    for (const Operator& op : std::exchange(replayed_, {})) {
      Operator before = op;
      before.phase = Phase::I;
      const std::size_t first = result_.size();
      for (const TensorId id : op.writes) restored(id, before);
      for (std::size_t i = first; i < result_.size(); ++i) result_[i].replayed = true;
    }
  }

  // Returns the tensor to read in the backward pass in place of `id`, and emits the copy of its writer if needed.
  TensorId restored(TensorId id, const Operator& reader) {
    if (const auto done = restored_.find(id); done != restored_.end()) return done->second;
    const auto found = dropped_.find(id);
    if (found == dropped_.end()) return id;
    Operator copy = found->second;
    copy.phase = reader.phase;
    copy.group = RecomputeGroup::none;
    copy.recomputed = true;
    const bool communicates = copy.section == Section::dispatch || copy.section == Section::combine;
    if (!communicates) copy.section = reader.section;
    for (TensorId& read : copy.reads) read = restored(stored_form(read), copy);
    for (TensorId& written : copy.writes) {
      Tensor fresh = graph_.tensors[written];
      fresh.name += "_again";
      graph_.tensors.push_back(std::move(fresh));
      const auto fresh_id = static_cast<TensorId>(graph_.tensors.size() - 1);
      restored_[written] = fresh_id;
      written = fresh_id;
    }
    result_.push_back(std::move(copy));
    return restored_.at(id);
  }

  // A stored form replaces its original unless it is dropped too; then it is computed again from the original.
  TensorId stored_form(TensorId id) const {
    const auto kept = kept_as_.find(id);
    return kept == kept_as_.end() || dropped_.contains(kept->second) ? id : kept->second;
  }

  Graph& graph_;
  const std::map<TensorId, TensorId>& kept_as_;
  std::map<TensorId, Operator> dropped_;
  std::vector<Operator> replayed_;
  std::map<TensorId, TensorId> restored_;
  std::vector<Operator> result_;
};

}  // namespace

void recompute(Graph& graph, const RecomputePolicy& policy, const std::map<TensorId, TensorId>& kept_as) {
  Recomputer(graph, policy, kept_as).run();
}

}  // namespace plumbline::model

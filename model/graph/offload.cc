#include "model/graph/offload.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

namespace plumbline::model {
namespace {

bool in_layer(Section section) { return section != Section::embedding && section != Section::head; }

class Offloader {
 public:
  Offloader(Graph& graph, double share) : graph_(graph), share_(share), within_kernels_(within_kernels(graph)) {}

  void run() {
    find_candidates();
    for (const Operator& op : graph_.operators)
      if (op.phase != Phase::F)
        for (const TensorId id : op.reads) fetch(id, op);
    std::vector<Operator> operators;
    for (const Phase phase : {Phase::F, Phase::I, Phase::W}) {
      std::ranges::move(in_[phase], std::back_inserter(operators));
      for (Operator& op : graph_.operators)
        if (op.phase == phase) operators.push_back(std::move(op));
      if (phase == Phase::F) send(operators);
    }
    graph_.operators = std::move(operators);
  }

 private:
  struct Candidate {
    TensorId id = 0;
    Section section = Section::attention;
  };

  // Finds the tensors to offload, in the order of the graph.
  void find_candidates() {
    const bool passes_through = graph_.input == graph_.output;
    bool input_seen = passes_through || graph_.tensor(graph_.input).role != Role::input;
    for (const Operator& op : graph_.operators) {
      if (op.phase != Phase::F) continue;
      if (!input_seen && std::ranges::find(op.reads, graph_.input) != op.reads.end()) {
        input_seen = true;
        add(graph_.input, op.section);
      }
      for (const TensorId id : op.writes)
        if (graph_.tensor(id).role == Role::activation) add(id, op.section);
    }
  }

  void add(TensorId id, Section section) {
    if (!in_layer(section) || within_kernels_[id]) return;
    candidates_.push_back({id, section});
    on_host_[id] = id;  // itself: no copy yet
  }

  void fetch(TensorId id, const Operator& reader) {
    const auto found = on_host_.find(id);
    if (found == on_host_.end() || found->second != id) return;
    Tensor part = graph_.tensor(id);
    if (part.shape.empty()) return;
    part.shape[0].size = std::llround(share_ * static_cast<double>(part.shape[0].size));
    if (part.shape[0].size == 0) return;
    part.name = "host_" + part.name;
    part.role = Role::host;
    graph_.tensors.push_back(std::move(part));
    found->second = static_cast<TensorId>(graph_.tensors.size() - 1);
    in_[reader.phase].push_back(
        copy(OperatorKind::copy_to_device, reader.phase, reader.section, found->second, id, "fetch_"));
  }

  void send(std::vector<Operator>& operators) const {
    for (const Candidate& candidate : candidates_) {
      const TensorId there = on_host_.at(candidate.id);
      if (there == candidate.id) continue;
      operators.push_back(
          copy(OperatorKind::copy_to_host, Phase::F, candidate.section, candidate.id, there, "offload_"));
    }
  }

  Operator copy(OperatorKind kind, Phase phase, Section section, TensorId from, TensorId to, const char* verb) const {
    const TensorId here = kind == OperatorKind::copy_to_host ? from : to;
    return {.kind = kind,
            .name = verb + graph_.tensor(here).name,
            .phase = phase,
            .section = section,
            .reads = {from},
            .writes = {to}};
  }

  Graph& graph_;
  double share_;
  std::vector<bool> within_kernels_;
  std::vector<Candidate> candidates_;
  std::map<TensorId, TensorId> on_host_;
  std::map<Phase, std::vector<Operator>> in_;
};

}  // namespace

void offload(Graph& graph, double share) { Offloader(graph, share).run(); }

}  // namespace plumbline::model

// What is executed again and again while times are taken, and what is timed in it.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "model/graph/graph.h"
#include "model/program/program.h"

namespace plumbline::real {

// One thing that is timed: what a record of it says beside its times.
struct Subject {
  std::string op;    // the operator's kind, "message", a collective, "launch"
  std::string name;  // for people
  std::string phase, format;
  std::string key;  // model::operator_key of an operator, else the op with its sizes
  std::vector<std::pair<std::string, std::int64_t>> shape;
  int cores = 1;              // of a GPU its SMs
  int communication_sms = 0;  // that copy through memory beside it; of a GPU the SMs that communication holds
  bool overlapped = false;    // what the step's other streams do runs at the same time
  double flops = 0;           // 0: none
  double bytes = 0;
  std::string cache;    // "hot", "cold" or empty: not said
  std::string variant;  // of a kernel's case (real/measure/kernel_case/kernel_case.h): how it was run

  // What tells cases apart: all that is timed in one place is one case.
  using Place = std::tuple<std::string, int, int, bool, std::string, std::string>;
  Place place() const { return {key, cores, communication_sms, overlapped, cache, variant}; }
};

// Operators that run one after the other, as a stage of a step runs them, or one alone with its gradients.
struct Sequence {
  struct Block {
    std::size_t graph = 0;  // of `graphs`
    std::string name;       // before an operator's name; empty: the operator's kind alone
  };
  struct Step {
    std::size_t block = 0, op = 0;
  };
  std::vector<model::Graph> graphs;
  std::vector<Block> blocks;  // each has tensors of its own, but what passes from one to the next
  std::vector<Step> steps;
  std::size_t chained = 0;  // so many first blocks pass activations on to the next and gradients back
  int cores = 1;
  int communication_sms = 0;  // above 0: other threads copy through memory meanwhile

  const model::Graph& graph(const Step& step) const { return graphs[blocks[step.block].graph]; }
  const model::Operator& op(const Step& step) const { return graph(step).operators[step.op]; }
};
struct MessageWorkload {
  std::int64_t bytes = 0;
};
struct CollectiveWorkload {
  model::OperatorKind op = model::OperatorKind::all_reduce;
  std::int64_t ranks = 2, bytes = 0;
};
// What the ranks of a group do together in a step, one operator after the other, each timed: exchanges of a block
// behind its router, or the collectives of an optimizer.
struct GroupWorkload {
  model::Graph graph;
  std::vector<std::size_t> before;  // operators that decide who sends what to whom; not timed
  std::vector<std::size_t> timed;
  std::int64_t ranks = 1;
  std::string name;  // before an operator's name
};
struct LaunchWorkload {};

using Workload = std::variant<Sequence, MessageWorkload, CollectiveWorkload, GroupWorkload, LaunchWorkload>;

// Operators that carry data between ranks or to a host: a sequence has a stand-in for them and takes no time of it.
bool has_stand_in(model::OperatorKind kind);

// Each distinct stage of a step as one micro-batch passes it, F of all blocks, then I and W backwards, then the
// stage's optimizer, on each of the core counts; and what the ranks of its groups do together.
std::vector<Workload> plan_workloads(const model::StepProgram& program, const std::string& name,
                                     const std::vector<std::int64_t>& cores);

// A graph alone: F of all its operators, then I, then W.
Sequence sequence_of(model::Graph graph, std::int64_t cores);

// What a workload times; of a sequence in the order of its steps, without those that have a stand-in.
std::vector<Subject> subjects_of(const Workload& workload);

// Each case once, in the order in which the workloads bring them.
std::vector<Subject> distinct_subjects(const std::vector<Workload>& workloads);

// What a record says of an operator that was timed. FLOPs and bytes are those that the cost functions of the simulator
// count (model/cost/work.h), attention causal, so that a rate fitted to records means the same there. `name`: before
// the operator's; empty: its kind alone.
Subject subject_of(const model::Graph& graph, const model::Operator& op, const std::string& name, int cores);

}  // namespace plumbline::real

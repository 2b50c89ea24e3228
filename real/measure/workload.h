// Workloads that are executed repeatedly while times are taken, and the subjects that are timed in them.
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

// One timed operator, message, collective or launch: what its record holds next to the times.
struct Subject {
  std::string op;    // the operator's kind, "message", a collective, "launch"
  std::string name;  // for people
  std::string phase, format;
  std::string key;  // model::operator_key of an operator, else the op with its sizes
  std::vector<std::pair<std::string, std::int64_t>> shape;
  int cores = 1;              // of a GPU: its SMs
  int communication_sms = 0;  // SMs reserved for communication; on the host, cores that copy through memory meanwhile
  bool overlapped = false;    // concurrent with the work of the step's other streams
  double flops = 0;           // 0: none
  double bytes = 0;
  std::string cache;    // "hot", "cold" or empty: unspecified
  std::string variant;  // of a kernel case (real/measure/kernel_case/kernel_case.h): how it was run

  // The identity of a case: subjects with equal places are one case.
  using Place = std::tuple<std::string, int, int, bool, std::string, std::string>;
  Place place() const { return {key, cores, communication_sms, overlapped, cache, variant}; }
};

// Operators that run one after the other: those of a stage, or a single one with its gradients.
struct Sequence {
  struct Block {
    std::size_t graph = 0;  // of `graphs`
    std::string name;       // prefix of the operators' names; empty: an operator is named by its kind alone
  };
  struct Step {
    std::size_t block = 0, op = 0;
  };
  std::vector<model::Graph> graphs;
  std::vector<Block> blocks;  // each has its own tensors, except those that pass from one to the next
  std::vector<Step> steps;
  std::size_t chained = 0;  // number of first blocks that pass activations to the next block and gradients back
  int cores = 1;
  int communication_sms = 0;  // number of threads that copy through memory concurrently

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
// Operators that the ranks of a group run together in a step, each timed: the dispatches and combines of a block after
// its router, or the collectives of an optimizer.
struct GroupWorkload {
  model::Graph graph;
  std::vector<std::size_t> before;  // untimed operators that decide how many tokens each rank sends to each other
  std::vector<std::size_t> timed;
  std::int64_t ranks = 1;
  std::string name;  // prefix of the operators' names
};
struct LaunchWorkload {};

using Workload = std::variant<Sequence, MessageWorkload, CollectiveWorkload, GroupWorkload, LaunchWorkload>;

// Returns whether a sequence replaces the operator, a transfer between ranks or to a host, by an untimed stand-in.
bool has_stand_in(model::OperatorKind kind);

// Returns a sequence for each distinct stage of a step and each core count: F of all blocks, then I and W in reverse
// order, then the stage's optimizer. Workloads of the ranks' groups follow.
std::vector<Workload> plan_workloads(const model::StepProgram& program, const std::string& name,
                                     const std::vector<std::int64_t>& cores);

// Returns a graph as a sequence: F of all its operators, then I, then W.
Sequence sequence_of(model::Graph graph, std::int64_t cores);

// Returns what a workload times; for a sequence in the order of its steps, without those that have a stand-in.
std::vector<Subject> subjects_of(const Workload& workload);

// Returns each case once, in the order of the workloads.
std::vector<Subject> distinct_subjects(const std::vector<Workload>& workloads);

// Returns the subject of a timed operator. FLOPs and bytes are those of the simulator's cost functions
// (model/cost/work.h), with causal attention, so that rates fitted to records apply there. `name` is the prefix of the
// operator's name; empty: its kind alone.
Subject subject_of(const model::Graph& graph, const model::Operator& op, const std::string& name, int cores);

}  // namespace plumbline::real

#include "real/measure/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "model/cost/operator_class.h"

namespace plumbline::real {
namespace {

using model::Phase;

void add_phase(Sequence& sequence, std::size_t block, Phase phase) {
  const auto& operators = sequence.graphs[sequence.blocks[block].graph].operators;
  for (std::size_t op = 0; op < operators.size(); ++op)
    if (operators[op].phase == phase) sequence.steps.push_back({block, op});
}

Sequence stage_sequence(const model::StepProgram& program, std::size_t stage, const std::string& name) {
  Sequence sequence;
  sequence.graphs = program.blocks;
  const auto& blocks = program.stage_kinds[program.stages[stage].kind].blocks;
  for (const std::uint16_t block : blocks)
    sequence.blocks.push_back({block, fmt::format("{}/{}/", name, program.blocks[block].name)});
  sequence.chained = blocks.size();
  for (std::size_t i = 0; i < blocks.size(); ++i) add_phase(sequence, i, Phase::F);
  for (std::size_t i = blocks.size(); i-- > 0;) {
    add_phase(sequence, i, Phase::I);
    add_phase(sequence, i, Phase::W);
  }
  sequence.graphs.push_back(program.stage_optimizers[stage]);
  sequence.blocks.push_back({sequence.graphs.size() - 1, name + "/optimizer/"});
  add_phase(sequence, sequence.blocks.size() - 1, Phase::W);
  return sequence;
}

// Adds the dispatch and combine of a block and their gradients.
void add_all_to_alls(const model::Graph& block, const std::string& name, std::vector<Workload>& workloads) {
  GroupWorkload group{.graph = block, .name = fmt::format("{}/{}/", name, block.name)};
  for (std::size_t op = 0; op < block.operators.size(); ++op) {
    const model::Operator& o = block.operators[op];
    if (o.recomputed) continue;
    if (o.kind == model::OperatorKind::router) group.before.push_back(op);
    if (!is_all_to_all(o.kind)) continue;
    const auto& attributes = std::get<model::DispatchAttributes>(o.attributes);
    group.ranks = attributes.experts / attributes.experts_per_rank;
    group.timed.push_back(op);
  }
  if (!group.timed.empty()) workloads.emplace_back(std::move(group));
}

// Adds one workload for each size of group.
void add_collectives(const model::Graph& optimizer, const std::string& name, std::vector<Workload>& workloads) {
  std::map<std::int64_t, GroupWorkload> groups;
  for (std::size_t op = 0; op < optimizer.operators.size(); ++op) {
    const auto* attributes = std::get_if<model::CollectiveAttributes>(&optimizer.operators[op].attributes);
    if (attributes == nullptr || attributes->ranks < 2) continue;
    GroupWorkload& group = groups[attributes->ranks];
    group.ranks = attributes->ranks;
    group.timed.push_back(op);
  }
  for (auto& [ranks, group] : groups) {
    group.graph = optimizer;
    group.name = name + "/optimizer/";
    workloads.emplace_back(std::move(group));
  }
}

}  // namespace

Sequence sequence_of(model::Graph graph, std::int64_t cores) {
  Sequence sequence;
  sequence.graphs.push_back(std::move(graph));
  sequence.blocks.push_back({0, ""});
  sequence.chained = 1;
  sequence.cores = static_cast<int>(cores);
  for (const Phase phase : {Phase::F, Phase::I, Phase::W}) add_phase(sequence, 0, phase);
  return sequence;
}

bool has_stand_in(model::OperatorKind kind) { return model::class_of(kind) >= model::OperatorClass::exchange; }

std::vector<Workload> plan_workloads(const model::StepProgram& program, const std::string& name,
                                     const std::vector<std::int64_t>& cores) {
  std::vector<Workload> workloads;
  std::set<std::int32_t> seen;
  for (std::size_t stage = 0; stage < program.stages.size(); ++stage) {
    if (!seen.insert(program.stages[stage].kind).second) continue;
    for (const std::int64_t count : cores) {
      Sequence sequence = stage_sequence(program, stage, name);
      sequence.cores = static_cast<int>(count);
      workloads.emplace_back(std::move(sequence));
    }
    add_collectives(program.stage_optimizers[stage], name, workloads);
  }
  for (const model::Graph& block : program.blocks) add_all_to_alls(block, name, workloads);
  return workloads;
}

std::vector<Subject> distinct_subjects(const std::vector<Workload>& workloads) {
  std::vector<Subject> distinct;
  std::set<Subject::Place> known;
  for (const Workload& workload : workloads) {
    for (Subject& subject : subjects_of(workload))
      if (known.insert(subject.place()).second) distinct.push_back(std::move(subject));
  }
  return distinct;
}

}  // namespace plumbline::real

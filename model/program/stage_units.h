// Groups the parameters of a stage that are reduced and gathered together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/graph/graph.h"
#include "model/plan/plan.h"
#include "model/program/program.h"

namespace plumbline::model {

struct UnitPiece {  // the parameters of one stored format
  DataType stored = DataType::bf16;
  double elements = 0;
  double whole = 0;  // of these, elements that every tensor-parallel rank holds whole
  double cast = 0;   // of these, elements that are cast to FP8 once a step
};
struct StageUnit {
  std::string name;
  bool expert = false;
  std::vector<UnitPiece> pieces;
  std::vector<ShardUnit::Place> parameters, gradients;
};

// Groups the parameters that the stage owns, in the order in which the backward pass completes their gradients. Where
// another block of the stage shares a parameter, its place there is listed too.
std::vector<StageUnit> stage_units(const Plan& plan, const std::vector<Graph>& blocks, const StageKind& stage);

}  // namespace plumbline::model

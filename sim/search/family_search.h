// Decides every plan of a family under one recomputation.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/plan_evaluator.h"
#include "sim/search/family_bounds.h"
#include "sim/search/leaders.h"
#include "sim/search/memory_floor.h"
#include "sim/search/schedule_bound.h"
#include "sim/search/space.h"
#include "sim/search/tally.h"

namespace plumbline::sim {

// Shared by all threads; nothing in it changes but what it remembers.
struct SearchScope {
  Inputs inputs;     // with a routing memo
  Inputs free;       // the same where no link is shared, for bounds: wiring only ever makes transfers slower
  SearchOptions options;
  Space space;
  ScheduleOutlines outlines;

  SearchScope(const Inputs& given, const SearchOptions& options);
  bool stopped() const { return options.stopped && options.stopped(); }
};

// A pipeline with one ZeRO stage and one split, whose training states fit.
struct Arrangement {
  const Pipeline* pipeline = nullptr;
  std::int64_t zero_stage = 0;
  const Split* split = nullptr;
};

// A family with what of it is left when states have been looked at.
struct OpenFamily {
  const Family* family = nullptr;
  std::vector<Arrangement> arrangements;
  std::uint64_t plans = 0;
  double bound = 0;  // s, of all its plans
};

// What one thread has for itself.
class SearchWorker {
 public:
  explicit SearchWorker(SearchScope& scope);

  // Looks at states and blocks of all plans of a family. Those that are removed are added to the tally.
  model::Result<OpenFamily> open(const Family& family, Tally& tally);

  struct Found {
    Leaders leaders;
    Tally tally;
    bool complete = true;  // false: stopped
  };
  // All plans of the family under one recomputation. `before`: what was found so far.
  model::Result<Found> decide(const OpenFamily& open, const Recomputation& recompute, const Leaders& before);

 private:
  struct Item {
    double bound = 0;
    Point point;
    std::size_t arrangement = 0;
  };
  model::Result<const CostModels*> costs(const model::Plan& plan);
  model::Result<std::vector<Item>> items(const OpenFamily& open, const Recomputation& recompute, model::Plan plan,
                                         Found& found, const Leaders& before);
  model::Result<void> evaluate(const Item& item, const model::Plan& plan, double limit, Found& found);

  SearchScope& scope_;
  PlanEvaluator evaluator_;
  MemoryFloor floor_;
  std::map<std::vector<std::int64_t>, CostModels> costs_;
};

}  // namespace plumbline::sim

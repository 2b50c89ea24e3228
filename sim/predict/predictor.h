// The time and memory of a plan's step, from parts that plans share and that are computed once. Callers with many plans
// share a predictor between them; simulate() makes one for a single plan.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/result/result.h"
#include "sim/network/step_links.h"
#include "sim/predict/inputs.h"
#include "sim/predict/simulation.h"
#include "sim/step/recording.h"

namespace plumbline::sim {

class Loop;
struct Execution;
struct ExecutionInput;

struct PlanEstimate {
  model::StepTimes step;
  Peak peak;
  bool fits = false;
};

struct PlanLimits {
  double bound_s = 0;                 // proven lower bound of the step
  double flops_at_peak_s = 0;         // as in model::StepResult
  std::vector<std::string> warnings;  // the same
};

// For one thread at a time. Several threads use a predictor each and may share the memos of the inputs. Plans may
// differ in everything but model.* and the hardware in cluster.*, which come from the predictor's inputs. The cache is
// cleared when it holds more than some hundred distinct graphs. Every function returns the errors of make_layout(),
// cost_models() and a schedule that deadlocks, and refuses results that no computation can have
// (sim/predict/detail/parts_cache.h). A plan that does not fit in memory is no error.
class Predictor {
 public:
  explicit Predictor(Inputs inputs);  // the plan of `inputs` does not matter
  ~Predictor();
  Predictor(Predictor&&) noexcept;
  Predictor& operator=(Predictor&&) noexcept;

  // Puts the durations of chunks on a GPU alone through the schedule's recurrence, without a step program.
  model::Result<PlanEstimate> closed_form(const model::Plan& plan);

  // Runs every slot of every pipeline rank, on `loop`, whose time must be 0, or on a loop that shares no links. Also
  // returns the errors of execute().
  model::Result<PlanEstimate> events(const model::Plan& plan, Loop* loop = nullptr);

  model::Result<model::Memory> memory(const model::Plan& plan);
  model::Result<Peak> peak(const model::Plan& plan);  // times nothing
  // Returns at most the bytes of peak(), and its bytes on hosts: those that the fullest rank holds between slots,
  // without what its allocator holds. No slot is composed.
  model::Result<Peak> least_peak(const model::Plan& plan);
  // Returns an error where a step of step_s, as closed_form() or events() return it, is below its limits.
  model::Result<PlanLimits> limits(const model::Plan& plan, Fidelity fidelity, double step_s);
  // Returns the links that the step's transfers cross, or nullptr where the inputs have no wiring.
  model::Result<std::shared_ptr<const StepLinks>> links(const model::Plan& plan);

  // Replaces the constants of the profile. Layouts, graphs, links and tables of schedules stay, times are found anew.
  // Those that slots wait for stragglers, which would take most of a prediction's time, lie between those of the
  // predictions before the first such call, by how much the ranks' times of experts vary.
  void set_profile(model::Profile profile);
  // Replaces the rates of links, whose number and order stay.
  void set_links(const model::ClusterShape& cluster, const std::optional<topologies::FabricShape>& fabric);
  // Returns the times of closed_form() without rates, chunks and power, and without its checks: constants that were
  // drawn may beat a datasheet.
  model::Result<model::StepTimes> step_parts(const model::Plan& plan);

  struct SimulationOptions {
    Fidelity fidelity = Fidelity::step;
    Recording record;
    Loop* loop = nullptr;  // as in events()
    // Runs the events of the step instead, any number of times, and returns an execution of one GPU per pipeline rank.
    // Called once, or twice where only some steps reduce gradients: then for those first.
    std::function<model::Result<Execution>(const ExecutionInput&)> execute = {};
  };
  // Returns the full result of a step: times, bound, losses, memory, cost and provenance.
  model::Result<Simulation> simulate(const model::Plan& plan, const SimulationOptions& options);

  // closed_form() for searches, which may stop early. Returns nullopt when `promising` returns false, or when the
  // collectives of one rank, which follow each other on one stream, take longer than `limit` seconds. `seconds` are
  // lower bounds by slot class of the schedule's table. Slots are timed one by one, those with most seconds first. Each
  // timed slot replaces its bounds by its seconds on a GPU alone, and promising() is called with the result.
  using Promising = std::function<bool(const std::vector<double>& seconds)>;
  model::Result<std::optional<PlanEstimate>> closed_form_while(const model::Plan& plan, double limit,
                                                               std::vector<double> seconds, const Promising& promising);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Predictors that several threads share, each used by one thread at a time. Points of a sweep, the top plans of a
// search and repeated what-ifs thus reuse what earlier ones have computed.

// Safe to use from several threads.
class PredictorPool {
 public:
  PredictorPool();

  // Returns use(predictor), with a predictor made for the inputs; their plan does not matter.
  template <class Use>
  auto with(const Inputs& inputs, const Use& use) {
    std::unique_ptr<Entry> entry = take(inputs);
    auto result = use(entry->predictor);
    give_back(std::move(entry));
    return result;
  }

 private:
  // Above this number of idle predictors, the one idle for longest is dropped.
  static constexpr std::size_t most_idle = 64;
  struct Entry {
    Inputs inputs;
    Predictor predictor;
  };
  std::unique_ptr<Entry> take(const Inputs& inputs);
  void give_back(std::unique_ptr<Entry> entry);

  std::mutex mutex_;
  std::vector<std::unique_ptr<Entry>> idle_;
  std::shared_ptr<ExpertGroupMemo> routing_;  // for inputs without a memo of their own
  std::shared_ptr<ScheduleTables> tables_;    // the same
};

}  // namespace plumbline::sim

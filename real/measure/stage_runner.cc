#include "real/measure/stage_runner.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "model/cost/operator_class.h"
#include "real/measure/detail/overlap.h"
#include "real/measure/sequence_buffers.h"
#include "real/measure/workload.h"

namespace plumbline::real {
namespace {

using model::OperatorKind;
using model::Result;
using model::Stream;

constexpr std::uint32_t unlabelled = std::numeric_limits<std::uint32_t>::max();
constexpr double enough = 0.9;          // of a kernel's time, for "beside"
constexpr double longest_gap_s = 5e-6;  // between two kernels that are both launched; above, one was not yet
// Buffers of the operators, and of the exchanges that run beside them.
constexpr std::size_t own_set = 0, exchange_set = 1, sets = 2;
constexpr std::size_t passes_beside = 2;

class StageRunner final : public Runner {
 public:
  StageRunner(const Sequence& sequence, Device& device, Communicator& communicator, const StageConditions& conditions)
      : sequence_(sequence),
        device_(device),
        communicator_(communicator),
        conditions_(conditions),
        buffers_(sequence, device, sets, Apart::what_exchanges) {
    for (const Sequence::Step& step : sequence.steps) {
      const OperatorKind kind = sequence.op(step).kind;
      if (is_exchange(kind)) exchanges_.push_back(step);
      if (!has_stand_in(kind)) computed_.push_back(step);
    }
  }

  // Operators alone, operators beside exchanges, exchanges alone, exchanges beside operators.
  std::vector<Subject> subjects() const {
    std::vector<Subject> found;
    const auto add = [&](const std::vector<Sequence::Step>& steps, bool beside, bool holds) {
      for (const Sequence::Step& step : steps) {
        const std::string& name = sequence_.blocks[step.block].name;
        found.push_back(subject_of(sequence_.graph(step), sequence_.op(step), name, conditions_.sms));
        found.back().copy_cores = holds ? conditions_.communication_sms : 0;
        found.back().beside = beside;
      }
    };
    add(computed_, false, false);
    add(computed_, true, true);
    add(exchanges_, false, true);
    add(exchanges_, true, true);
    return found;
  }

  Result<std::vector<Sample>> round(std::size_t) override {
    samples_.clear();
    for (const auto part :
         {&StageRunner::begin, &StageRunner::operators_alone, &StageRunner::exchanges_alone, &StageRunner::both}) {
      (this->*part)();
      TRY(device_.synchronise());
      keep(part);
    }
    return std::move(samples_);
  }

 private:
  using Part = void (StageRunner::*)();

  // Once, as the step runs: exchanges decide which experts have how many tokens.
  void begin() {
    if (begun_) return;
    begun_ = true;
    for (std::size_t set = 0; set < sets; ++set) {
      for (const Sequence::Step& step : sequence_.steps) {
        const OperatorKind kind = sequence_.op(step).kind;
        if (!has_stand_in(kind)) device_.launch(Stream::compute, buffers_.kernel(set, step, unlabelled));
        if (!is_exchange(kind)) continue;
        device_.wait(Stream::communication, device_.record(Stream::compute));
        exchange(set, step, unlabelled);
        device_.wait(Stream::compute, device_.record(Stream::communication));
      }
    }
  }

  void operators_alone() {
    constexpr double most_passes = 100;
    const double passes = pass_s_ > 0 ? std::min(most_passes, std::ceil(conditions_.soak_s / pass_s_)) : 1;
    for (int pass = 0; pass < static_cast<int>(passes); ++pass) compute(false);
    compute(true);
  }

  // The first of them brings clocks and caches where they are when the others run.
  void exchanges_alone() {
    for (const bool labelled : {false, true}) exchange_all(labelled);
  }

  // The operators are launched first: launching a dispatch may wait for the one before it.
  void both() {
    if (exchanges_.empty()) return;
    for (std::size_t pass = 0; pass < passes_beside; ++pass) compute(true);
    const double computing = static_cast<double>(passes_beside) * pass_s_;
    const int times = exchange_s_ > 0 ? static_cast<int>(std::ceil(computing / exchange_s_)) : 1;
    for (int time = 0; time < times; ++time) exchange_all(true);
  }

  void compute(bool labelled) {
    for (std::uint32_t i = 0; i < computed_.size(); ++i)
      device_.launch(Stream::compute, buffers_.kernel(own_set, computed_[i], labelled ? i : unlabelled));
  }

  void exchange_all(bool labelled) {
    const auto first = static_cast<std::uint32_t>(computed_.size());
    for (std::uint32_t i = 0; i < exchanges_.size(); ++i)
      exchange(exchange_set, exchanges_[i], labelled ? first + i : unlabelled);
  }

  Group group_of(const Sequence::Step& step) const {
    const auto& attributes = std::get<model::DispatchAttributes>(sequence_.op(step).attributes);
    Group group;
    group.ranks.resize(static_cast<std::size_t>(attributes.experts / attributes.experts_per_rank));
    group.position = communicator_.rank() % group.size();
    std::iota(group.ranks.begin(), group.ranks.end(), communicator_.rank() - group.position);
    return group;
  }

  void exchange(std::size_t set, const Sequence::Step& step, std::uint32_t label) {
    communicator_.launch(Stream::communication, group_of(step), buffers_.kernel(set, step, label));
  }

  void keep(Part part) {
    const std::vector<KernelRecord> records = device_.take_records();
    if (part == &StageRunner::begin) return;
    const auto computing = of_stream(records, Stream::compute), moving = of_stream(records, Stream::communication);
    const bool beside = part == &StageRunner::both;
    const std::size_t operators = computed_.size();
    double before = -1;  // end of the operator before; below 0: none, and no gap to hold
    double pass = 0, exchange = 0;
    for (const KernelRecord& record : computing) {
      const bool in_turn = before >= 0 && record.start - before <= longest_gap_s;
      const double start = in_turn ? before : record.start;
      const bool first = std::exchange(before, record.end) < 0;
      if (record.label == unlabelled || first) continue;
      pass += record.end - start;
      if (!beside || covered_share(start, record.end, moving) >= enough)
        samples_.push_back({record.label + (beside ? operators : 0), record.end - start, 0});
    }
    for (const KernelRecord& record : moving) {
      if (record.label == unlabelled) continue;
      const double seconds = record.end - record.start;
      exchange += seconds;
      if (!beside || covered_share(record.start, record.end, computing) >= enough)
        samples_.push_back({operators + record.label + (beside ? exchanges_.size() : 0), seconds, 0});
    }
    if (part == &StageRunner::operators_alone) pass_s_ = pass;
    if (part == &StageRunner::exchanges_alone) exchange_s_ = exchange;
  }

  const Sequence& sequence_;
  Device& device_;
  Communicator& communicator_;
  StageConditions conditions_;
  SequenceBuffers buffers_;
  std::vector<Sequence::Step> computed_, exchanges_;
  std::vector<Sample> samples_;
  bool begun_ = false;
  double pass_s_ = 0, exchange_s_ = 0;  // all operators once, all exchanges once; of the last round
};

}  // namespace

RunnableWorkload stage_workload(const Sequence& sequence, Device& device, Communicator& communicator,
                                const StageConditions& conditions) {
  auto runner = std::make_unique<StageRunner>(sequence, device, communicator, conditions);
  std::vector<Subject> subjects = runner->subjects();
  return {std::move(runner), std::move(subjects)};
}

}  // namespace plumbline::real

// Conditions that depend on what is outside of the script: both outcomes are tried, and where they leave the same
// variables and commands the script goes on as one.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "model/megatron/shell/detail/evaluator.h"

namespace plumbline::model::megatron {
namespace {

bool same_letter(const Letter& left, const Letter& right) {
  return left.symbol == right.symbol && left.kept == right.kept;
}
bool same_fields(const Fields& left, const Fields& right) {
  return std::ranges::equal(
      left, right, [](const Letters& one, const Letters& two) { return std::ranges::equal(one, two, same_letter); });
}

// Whether both have the same commands that can start a training.
bool same_programs(const std::vector<Command>& left, const std::vector<Command>& right) {
  const auto programs = [](const std::vector<Command>& commands) {
    std::vector<std::string> texts;
    for (const Command& command : commands) {
      if (!holds_program(command)) continue;
      for (const Word& word : command) texts.push_back(word.text);
      texts.emplace_back("\n");
    }
    return texts;
  };
  return programs(left) == programs(right);
}

bool same_state(const State& left, const State& right) {
  const bool variables = std::ranges::equal(left.variables, right.variables, [](const auto& one, const auto& two) {
    return one.first == two.first && same_fields(one.second, two.second);
  });
  return variables && same_fields(left.parameters, right.parameters) && left.functions == right.functions &&
         left.folder == right.folder && same_programs(left.commands, right.commands);
}

}  // namespace

bool holds_program(const Command& command) {
  return std::ranges::any_of(command, [](const Word& word) { return word.text.ends_with(".py"); });
}

// Returns the status of the last command of a condition, and collects what it lacks.
Truth Evaluator::condition(const std::vector<Node>& nodes) {
  missing_.clear();
  unknown_.clear();
  status_ = Truth::yes;
  run_list(nodes);
  return status_;
}

Evaluator::Reached Evaluator::try_outcome(const State& before, const std::string& key, std::size_t index,
                                          const Outcome& outcome) {
  state_ = before;
  state_.decided[key] = index;
  flow_ = Flow::none;
  outcome.run();
  Reached reached{std::move(state_), flow_, levels_, status_, undecided_, exhausted_ ? std::nullopt : error_};
  flow_ = Flow::none;
  undecided_ = false;
  if (!exhausted_) error_.reset();
  return reached;
}

void Evaluator::adopt(Reached reached) {
  state_ = std::move(reached.state);
  flow_ = reached.flow;
  levels_ = reached.levels;
  status_ = reached.status;
  if (reached.error) error_ = std::move(reached.error);
}

void Evaluator::choose(const Question& question, const std::vector<Outcome>& outcomes) {
  const std::string key = question.condition + '\n' + unknown_;
  if (const auto found = state_.decided.find(key); found != state_.decided.end())
    return outcomes[std::min(found->second, outcomes.size() - 1)].run();
  const State before = std::move(state_);
  const auto missing = missing_;
  const std::string unknown = unknown_;
  std::vector<Reached> reached;
  ++trying_;
  for (std::size_t i = 0; i < outcomes.size() && !exhausted_; ++i)
    reached.push_back(try_outcome(before, key, i, outcomes[i]));
  --trying_;
  state_ = before;
  if (exhausted_) return;
  // A script that ends itself before it starts anything is not the one to read.
  std::vector<std::size_t> possible;
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const bool ends = !reached[i].undecided && !reached[i].error && reached[i].flow == Flow::end &&
                      std::ranges::none_of(reached[i].state.commands, holds_program);
    if (!ends) possible.push_back(i);
  }
  if (possible.empty()) possible.push_back(0);
  const Reached& first = reached[possible[0]];
  const bool same = std::ranges::all_of(possible, [&](std::size_t i) {
    const Reached& other = reached[i];
    return !other.undecided && !other.error && other.flow == first.flow && same_state(first.state, other.state);
  });
  if (same || (possible.size() == 1 && !first.undecided)) {
    const bool one_status =
        std::ranges::all_of(possible, [&](std::size_t i) { return reached[i].status == first.status; });
    adopt(std::move(reached[possible[0]]));
    if (!one_status) status_ = Truth::unknown;
    missing_.insert(missing.begin(), missing.end());
    unknown_ += unknown;
    if (possible.size() > 1) state_.decided = before.decided;
    if (possible.size() > 1) state_.assumed = before.assumed;
    return;
  }
  missing_ = missing;
  if (trying_ > 0) {
    undecided_ = true;
  } else {
    decide(question, outcomes, possible, reached, key, before);
  }
}

// Takes the forced outcome, or the first one, and records the question.
void Evaluator::decide(const Question& question, const std::vector<Outcome>& outcomes,
                       const std::vector<std::size_t>& possible, std::vector<Reached>& reached, const std::string& key,
                       const State& before) {
  Decision decision{question.line, question.condition, {missing_.begin(), missing_.end()}, {}, 0};
  for (const std::size_t i : possible) decision.outcomes.push_back(outcomes[i].label);
  const std::size_t position = out_.decisions.size();
  if (position < forced_.size()) decision.taken = std::min(forced_[position], possible.size() - 1);
  const std::size_t taken = possible[decision.taken];
  if (possible.size() > 1) out_.decisions.push_back(std::move(decision));
  if (!reached[taken].undecided) return adopt(std::move(reached[taken]));
  state_ = before;
  state_.decided[key] = taken;
  outcomes[taken].run();
}

}  // namespace plumbline::model::megatron

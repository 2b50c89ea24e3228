// Conditions that the script does not decide: every outcome is run from the same state, and what differs afterwards is
// not known.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/megatron/shell/detail/evaluator.h"

namespace plumbline::model::megatron {
namespace {

constexpr const char* not_decided = "--define its variables, or let --execute run the script";

}  // namespace

bool Evaluator::trains(const Command& command) const {
  if (inputs_.trains) return inputs_.trains(command);
  return std::ranges::any_of(command, [](const Word& word) { return word.text.ends_with(".py"); });
}

// Returns the condition as a clause of a sentence, with the variables that would decide it.
std::string Evaluator::deciding(const Question& question) const {
  return fmt::format("'{}'{}{}", question.condition, missing_.empty() ? "" : " with ", fmt::join(missing_, ", "));
}

// Returns the status of the last command of a condition, and collects what it lacks.
Truth Evaluator::condition(const std::vector<Node>& nodes) {
  missing_.clear();
  status_ = Truth::yes;
  run_list(nodes);
  return status_;
}

void Evaluator::choose(const Question& question, const std::vector<Outcome>& outcomes) {
  const State before = state_;
  const auto missing = missing_;
  const int exit_line = out_.exit_line;
  const auto printed = output_ == nullptr ? std::nullopt : *output_;
  std::optional<std::optional<Letters>> prints;
  std::vector<Reached> reached;
  for (const Outcome& outcome : outcomes) {
    state_ = before;
    flow_ = Flow::none;
    if (output_ != nullptr) *output_ = printed;
    outcome();
    if (error_) return;
    if (output_ != nullptr && prints && (!*prints || !*output_ || !same_fields({**prints}, {**output_})))
      prints.emplace(std::nullopt);
    else if (output_ != nullptr)
      prints = *output_;
    const auto first = state_.commands.begin() + static_cast<std::ptrdiff_t>(before.commands.size());
    const bool starts = std::any_of(first, state_.commands.end(), [this](const Command& one) { return trains(one); });
    reached.push_back({std::move(state_), flow_, status_, starts});
  }
  missing_ = missing;
  if (prints) *output_ = *prints;
  const auto ends = [](const Reached& one) { return one.flow == Flow::end && !one.trains; };
  const auto ended = std::ranges::count_if(reached, ends);
  if (ended > 0 && ended < std::ssize(reached)) {
    out_.exit_line = exit_line;
    line_ = question.line;
    if (!missing_.empty())
      note(fmt::format("{} is not decided: outcomes that end the script before a training are left out",
                       deciding(question)));
    std::erase_if(reached, ends);
  }
  join(question, std::move(reached));
}

// Goes on with what all outcomes have in common.
void Evaluator::join(const Question& question, std::vector<Reached> reached) {
  const auto training = [this](const Reached& one) {
    std::string text;
    for (const Command& command : one.state.commands)
      if (trains(command))
        for (const Word& word : command) text += word.text + '\n';
    return text;
  };
  const auto started = std::ranges::find(reached, true, &Reached::trains);
  const bool starts = started != reached.end();
  const std::string text = starts ? training(*started) : "";
  const std::vector<Command> commands = starts ? started->state.commands : std::vector<Command>();
  if (std::ranges::any_of(reached, [&](const Reached& one) { return one.trains && training(one) != text; }))
    return fail(question.line, fmt::format("{} decides which training is started", deciding(question)), not_decided);
  const bool maybe = starts && !std::ranges::all_of(reached, &Reached::trains);
  if (maybe) {
    line_ = question.line;
    note(fmt::format("{} is not decided: it is taken as it starts a training", deciding(question)));
  }
  // Where some outcomes go on the others end the script.
  const auto goes_on = [](const Reached& one) { return one.flow != Flow::end; };
  if (std::ranges::any_of(reached, goes_on)) std::erase_if(reached, [&](const Reached& one) { return !goes_on(one); });
  Reached& first = reached.front();
  std::set<std::string> names;
  for (const Reached& one : reached) {
    if (one.flow != first.flow || one.state.functions != first.state.functions ||
        one.state.locals.size() != first.state.locals.size() ||
        !same_fields(one.state.parameters, first.state.parameters))
      return fail(question.line, fmt::format("{} decides how the script goes on", deciding(question)), not_decided);
    for (std::size_t i = 0; &one != &first && i < one.state.locals.size(); ++i)
      first.state.locals[i].insert(one.state.locals[i].begin(), one.state.locals[i].end());
    if (one.status != first.status) first.status = Truth::unknown;
    if (one.state.folder != first.state.folder) first.state.folder.clear();
    for (const auto& [name, ignored] : one.state.variables) names.insert(name);
  }
  State after = first.state;
  for (const std::string& name : names) {
    std::vector<const Fields*> values;
    for (const Reached& one : reached) {
      const auto value = one.state.variables.find(name);
      values.push_back(value == one.state.variables.end() ? nullptr : &value->second);
    }
    after.variables[name] = join_values(name, question, values);
  }
  if (starts) after.commands = commands;
  if (maybe) after.maybe_line = question.line;
  state_ = std::move(after);
  flow_ = first.flow;
  status_ = first.status;
}

// Returns what the values of a variable have in common at their beginning, whole words of it, and "$NAME" for the rest.
Fields Evaluator::join_values(const std::string& name, const Question& question,
                              const std::vector<const Fields*>& values) {
  const Fields none, &first = values.front() == nullptr ? none : *values.front();
  const auto all = [&](const auto& holds) { return std::ranges::all_of(values, holds); };
  const auto same_at = [&](std::size_t i) {
    return all([&](const Fields* one) {
      return one != nullptr && i < one->size() && i < first.size() && same_fields({(*one)[i]}, {first[i]});
    });
  };
  std::size_t fields = 0, letters = 0;
  while (same_at(fields)) ++fields;
  if (all([&](const Fields* one) { return one != nullptr && one->size() == fields; })) return first;
  Fields value(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(fields));
  if (all([](const Fields* one) { return one != nullptr && one->size() == 1; })) {
    const auto same_letter = [&](std::size_t i) {
      return all([&](const Fields* one) {
        const Letters& field = one->front();
        return i < field.size() && i < first[0].size() && same_fields({{field[i]}}, {{first[0][i]}});
      });
    };
    const auto between_words = [&](std::size_t i) {
      return is_blank(first[0][i - 1].symbol) ||
             all([i](const Fields* one) { return i == one->front().size() || is_blank(one->front()[i].symbol); });
    };
    for (std::size_t i = 0; same_letter(i); ++i)
      if (between_words(i + 1)) letters = i + 1;
    value = {slice(first[0], 0, letters)};
  }
  OpenValue rest{name, question.line, deciding(question) + " is not decided", {}};
  for (const Fields* one : values) {
    const std::string text = one == nullptr ? "" : text_of(joined(*one, fields));
    rest.outcomes.push_back(text.substr(std::min(letters, text.size())));
  }
  open(std::move(rest));
  const Letters mark = kept_letters("$" + name, question.line);
  if (letters > 0) {
    value[0].push_back({' ', question.line});
    value[0].insert(value[0].end(), mark.begin(), mark.end());
  } else if (letters == 0 && fields == 0) {
    value = {mark};
  } else if (!same_fields({value.back()}, {mark}) || value.back().front().line != question.line) {
    value.push_back(mark);
  }
  return value;
}

}  // namespace plumbline::model::megatron

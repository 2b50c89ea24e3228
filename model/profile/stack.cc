#include "model/profile/stack.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "model/base/parameter_file.h"
#include "model/plan/software.h"
#include "model/profile/constant_rules.h"

namespace plumbline::model {
namespace {

// Adds the settings, or lists, of a file whose keys no earlier file has.
template <class Check>
Result<void> add_settings(const std::vector<ParameterFile::Setting>& own, const std::string& file,
                          const std::string& stack, const Check& check, std::vector<PlanSetting>& all) {
  const std::size_t earlier = all.size();
  for (const ParameterFile::Setting& setting : own) {
    const auto known = std::ranges::find_if(all, [&](const PlanSetting& other) {
      return other.key == setting.key && other.instead_of == setting.instead_of;
    });
    const auto at = static_cast<std::size_t>(known - all.begin());
    if (known != all.end() && at >= earlier)
      return wrong_input_at(file, setting.line, setting.key, "is there twice", "remove one");
    PlanSetting made{
        setting.key,   setting.value,     setting.kind, setting.source, {file, setting.line, "stack " + stack},
        setting.needs, setting.instead_of};
    TRY(check(made));
    if (!made.needs.empty())
      TRY(find_constant_rules(made.needs).map_error([&](const Error& error) {
        return wrong_input_at(file, setting.line, "setting.needs", error.message, error.hint).value();
      }));
    if (known == all.end()) all.push_back(std::move(made));
  }
  return {};
}

}  // namespace

bool Stack::stands_in_on(std::string_view device) const {
  return std::ranges::any_of(devices, [&](const std::string& pattern) { return name_fits(device, pattern); });
}

bool Stack::is_of(std::string_view model_type) const {
  const auto fits = [&](const std::string& pattern) { return name_fits(model_type, pattern); };
  return models.empty() || std::ranges::any_of(models, fits);
}

Result<Stack> load_stack(const std::string& path, const std::string& shipped, const std::string& held_out) {
  auto chain = TRY(read_chain(path, shipped,
                              {.what = "stack",
                               .text_keys = {"name", "description", "extends", "other_models"},
                               .list_keys = {"devices", "models"},
                               .form = ParameterForm::stack,
                               .check = check_constants}));
  const ParameterFile& own = chain.front();
  Stack stack{own.name(),
              own.text_or_empty("description"),
              {},
              {},
              {},
              own.text_or_empty("extends"),
              own.values("devices"),
              own.values("models"),
              own.text_or_empty("other_models")};
  if (!stack.devices.empty() && stack.extends.empty())
    return wrong_input_at(path, own.text("devices")->line, "devices",
                          "this stack extends none that it could stand in for", "name that stack in extends");
  if (stack.models.empty() != stack.other_models.empty())
    return wrong_input_at(path, own.text(stack.models.empty() ? "other_models" : "models")->line, "other_models",
                          "belongs to models: the one names types of models, the other the stack of all others",
                          "give both, or none");
  if (stack.name == no_stack)
    return wrong_input_at(path, 0, "name", "'none' stands for no stack", "choose another name");
  for (const ParameterFile& file : chain) {
    TRY(add_settings(file.settings, file.path, stack.name, check_setting, stack.settings));
    TRY(add_settings(file.has, file.path, stack.name, listed_values, stack.has));
  }
  for (ParameterFile& file : chain)
    std::erase_if(file.numbers, [&](const ParameterFile::Number& number) {
      return std::ranges::find(number.parameter.rows, held_out) != number.parameter.rows.end();
    });
  stack.parameters = take_constants(joined(std::move(chain)));
  for (Parameter& parameter : stack.parameters) parameter.stack = stack.name;
  return stack;
}

Result<void> apply_stack(const Stack& stack, const Profile& profile, Plan& plan) {
  if (!plan.stack.name) {
    plan.places["stack.name"] = {"", 0, "the profile's"};
    plan.stack.name = stack.name;
  }
  plan.software.clear();
  for (const PlanSetting& list : stack.has) plan.software[list.key] = {stack.name, TRY(listed_values(list))};
  std::vector<PlanSetting> settings = stack.settings;
  std::erase_if(settings,
                [&](const PlanSetting& setting) { return !setting.needs.empty() && !profile.find(setting.needs); });
  return apply_settings(settings, plan);
}

Profile with_stack(const Profile& profile, const Stack& stack) {
  std::vector<Parameter> parameters = stack.parameters;
  std::ranges::copy_if(profile.parameters(), std::back_inserter(parameters), [&](const Parameter& parameter) {
    return !std::ranges::binary_search(stack.parameters, parameter.name, {}, &Parameter::name);
  });
  return {profile.name(),
          profile.description(),
          std::move(parameters),
          profile.devices(),
          stack.name,
          kept(profile.fits(), [&](const std::string& name) {
            return !std::ranges::binary_search(stack.parameters, name, {}, &Parameter::name);
          })};
}

}  // namespace plumbline::model

// Fuzz targets. Each takes any bytes as the input of one reader, or of a prediction, and must come back with a value or
// with an error in words. docs/robustness.md describes how they are run.
#pragma once

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"

namespace plumbline::fuzz {

// Returns a text near `text`, of at most `capacity` bytes, in place of libFuzzer's own mutations.
using Mutator = std::string (*)(const std::string& text, std::size_t capacity, unsigned seed);

struct Target {
  std::string name;
  std::function<void(std::string_view input)> run;  // throws std::logic_error where an answer is no possible one
  std::vector<std::string> seeds;                   // further inputs: files and folders of the repository
  std::size_t longest = 4096;                       // bytes of an input that libFuzzer makes
  Mutator mutate = nullptr;                         // nullptr: libFuzzer's own mutations
};

const std::vector<Target>& targets();

// Throws unless an answer has a property, which `what` names.
inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what);
}

// Throws where an error has no text.
template <class T>
void require_words(const model::Result<T>& result) {
  require(result || !result.error().message.empty(), "an error has no message");
}

// Throws where what was written cannot be read again.
template <class T>
void require_read(const model::Result<T>& again) {
  require(again.has_value(), "what was written is not read again: " + (again ? "" : to_string(again.error())));
}

// Writes the input into a folder of this process and returns its path.
std::string input_file(const std::string& name, std::string_view input);

// Returns the path of a file or folder of the repository.
std::string in_repository(const std::string& path);

// The readers, by the folder of what they read.
void read_plan_text(std::string_view input);
void read_model_config(std::string_view input);
void read_topology(std::string_view input);
void read_device(std::string_view input);
void read_nccl_topology(std::string_view input);
void read_placement(std::string_view input);
void read_profile(std::string_view input);
void read_stack(std::string_view input);
void read_reliability(std::string_view input);
void read_expert_loads(std::string_view input);
void read_document_lengths(std::string_view input);
void read_request_lengths(std::string_view input);
void read_schedule_costs(std::string_view input);
void read_schedule_order(std::string_view input);
void read_measurement_csv(std::string_view input);
void read_measurement_lines(std::string_view input);
void read_kernel_classes(std::string_view input);
void read_kernel_trace(std::string_view input);
void read_kineto(std::string_view input);
void read_nccl_tests(std::string_view input);
void read_training_log(std::string_view input);
void read_launch_script(std::string_view input);
std::vector<Target> configuration_targets();  // one for each format that plumbline imports
void read_stored_result(std::string_view input);
void read_validation_case(std::string_view input);
void read_host_cases(std::string_view input);
void read_kernel_cases(std::string_view input);
void read_ledger(std::string_view input);
void read_checkpoint_file(std::string_view input);
void read_checkpoint_manifest(std::string_view input);
void take_control_bytes(std::string_view input);
void read_component_table(std::string_view input);
void read_original_components(std::string_view input);
void read_recipe(std::string_view input);
void read_left_cells(std::string_view input);
void read_published_table(std::string_view input);
void read_component_case(std::string_view input);
void read_step_case(std::string_view input);
void read_serving_case(std::string_view input);
void read_option_values(std::string_view input);

// Takes the name of a shipped plan on the first line, KEY=VALUE on the others, and predicts in closed form.
void predict_plan(std::string_view input);
std::string mutate_plan(const std::string& text, std::size_t capacity, unsigned seed);

}  // namespace plumbline::fuzz

// Tables and recipes that profiles are made of, and tables of other people's figures that predictions are held against.
#include <string>

#include "calibrate/components/load.h"
#include "calibrate/fit/recipe/profile_maker.h"
#include "calibrate/import/components/import.h"
#include "calibrate/residuals/left_estimate.h"
#include "calibrate/validate/component_case.h"
#include "calibrate/validate/detail/case_rows.h"
#include "calibrate/validate/serving/serving_case.h"
#include "calibrate/validate/step_case.h"
#include "tests/fuzz/targets.h"

namespace plumbline::fuzz {

// A table of this project's form is that of one loader, which its columns decide; all others refuse it.
void read_component_table(std::string_view input) {
  const std::string path = input_file("h100/table.csv", input);
  require_words(calibrate::load_gemm_rows(path));
  require_words(calibrate::load_grouped_gemm_rows(path));
  require_words(calibrate::load_held_gemm_rows(path));
  require_words(calibrate::load_attention_rows(path));
  require_words(calibrate::load_training_attention_rows(path));
  require_words(calibrate::load_scan_rows(path));
  require_words(calibrate::load_mla_rows(path));
  require_words(calibrate::load_cached_attention_rows(path));
  require_words(calibrate::load_expert_rows(path));
  require_words(calibrate::load_collective_rows(path));
  require_words(calibrate::load_exchange_rows(path));
  require_words(calibrate::load_printed_exchange_rows(path));
  require_words(calibrate::load_tray_exchange_rows(path));
}

// What is imported of an original table is read by the loader of its name.
void read_original_components(std::string_view input) {
  const auto files = calibrate::import_components({input_file("components.csv", input)}, "0a1");
  require_words(files);
  if (!files) return;
  for (const calibrate::ComponentFile& file : *files)
    require_read(calibrate::check_component_table(input_file(file.path, file.text)));
}

void read_recipe(std::string_view input) { require_words(calibrate::load_recipe(input_file("h100.toml", input))); }

void read_left_cells(std::string_view input) {
  const auto cells = calibrate::load_left_cells(input_file("residuals.csv", input));
  require_words(cells);
  if (!cells) return;
  const std::string written = calibrate::left_cells_csv(*cells);
  const auto again = calibrate::load_left_cells(input_file("again.csv", written));
  require_read(again);
  require(calibrate::left_cells_csv(*again) == written, "residuals change when they are written and read:\n" + written);
}

void read_published_table(std::string_view input) {
  const std::string path = input_file("published.csv", input);
  require_words(calibrate::read_published_steps(path));
  require_words(calibrate::read_published_serving(path));
  require_words(calibrate::read_published_all_to_alls(path));
  require_words(calibrate::read_published_gemms(path));
  require_words(calibrate::load_example_figures(path));
}

void read_component_case(std::string_view input) {
  require_words(calibrate::load_component_case(input_file("case.toml", input)));
}

void read_step_case(std::string_view input) {
  require_words(calibrate::load_step_case(input_file("case.toml", input)));
}

void read_serving_case(std::string_view input) {
  require_words(calibrate::load_serving_case(input_file("case.toml", input)));
}

}  // namespace plumbline::fuzz

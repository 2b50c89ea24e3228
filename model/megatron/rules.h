// Keys of a plan that depend on several arguments, with the code that reads and the code that writes them.
//
// Converts layers per pipeline stage between Megatron's arguments and a plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/megatron/arguments.h"
#include "model/megatron/model_shape.h"
#include "model/plan/plan.h"

namespace plumbline::model::megatron {

// The inputs and outputs of the rules. Keys with their own row in the table are set before rules are read.
struct RuleReader {
  const Given& given;
  const ModelShape& shape;
  Plan& plan;
  std::vector<Note>& notes;

  // Returns the whole number that an argument has; another value is refused.
  std::optional<std::int64_t> number(std::string_view argument) const;
  void note(std::string_view argument, std::string text) const;
  void refuse(std::string_view argument, std::string text) const;  // as Megatron does
};
struct RuleWriter {
  const Plan& plan;
  const ModelShape& shape;
  Given& out;
};

struct Rule {
  void (*read)(const RuleReader&);
  void (*write)(const RuleWriter&);
};
// Returns the rules in the order in which they must be read: batch and precision before the rules that depend on them.
std::vector<Rule> rules();
Rule schedule_rule();  // the one of a source of its own

// Reads the generation of slime or of ms-swift's GRPO where the plan has [rollout], into that, [inference] and the
// samples of [batch]. Before, the plan has the mean prompt, the longest answer where it is stated elsewhere, and the
// placement of engines that have GPUs of their own.
void read_rollout(const RuleReader& in);

// Returns the plan of a script without arguments: Megatron's defaults where plumbline's differ.
Plan megatron_defaults();

struct StageLayout {
  std::vector<std::int64_t> counts;  // of the layers t between the bars
  bool elsewhere = false;            // E, m or L (embedding, prediction, loss) is not where plumbline has it
};

// Parses "Et*3|(tt|)*29,m|L" (PipelineParallelLayerLayout.parse_str_to_list in Megatron-LM's
// megatron/core/transformer/pipeline_parallel_layer_layout.py). Returns nothing for other text or over a million items.
std::optional<StageLayout> parse_layout(std::string_view text);

// Returns such a layout as text: "Et*3|t*4|...|t*2mL", with the prediction modules on the stage before the last one
// where that holds no layers.
std::string layout_text(const std::vector<std::int64_t>& counts, bool prediction);

// Returns the layers of each stage where the embedding or the loss count as one
// (--account-for-embedding-in-pipeline-split, --account-for-loss-in-pipeline-split). Nothing when that is uneven.
std::optional<std::vector<std::int64_t>> accounted_ends(std::int64_t layers, std::int64_t stages, bool embedding,
                                                        bool loss);

// Returns the layers of each stage when the first and the last rank hold `first` and `last` layers in all and the
// others share the rest evenly. Each rank divides its layers over its virtual stages. Nothing when that is uneven.
std::optional<std::vector<std::int64_t>> uneven_ends(std::int64_t layers, std::int64_t pipeline,
                                                     std::int64_t virtual_stages, std::optional<std::int64_t> first,
                                                     std::optional<std::int64_t> last);

// Parses numbers of layers from 0, each given once: "61,62,63". Nothing for other text.
std::optional<std::vector<std::int64_t>> parse_noop_layers(std::string_view text);

}  // namespace plumbline::model::megatron

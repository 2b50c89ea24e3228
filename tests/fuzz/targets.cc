#include "tests/fuzz/targets.h"

#include "tests/support/folders.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::fuzz {

const std::vector<Target>& targets() {
  static const std::vector<Target> all = [] {
    const std::string inputs = "tests/golden/inputs/";
    std::vector<Target> list = {
        {"plan", &read_plan_text, {"examples"}},
        {"config", &read_model_config, {"examples/models"}},
        {"topology", &read_topology, {"topologies"}},
        {"device", &read_device, {"topologies/devices"}},
        {"nccl-topology", &read_nccl_topology, {inputs + "nccl-h100.xml"}},
        {"placement", &read_placement},
        {"profile", &read_profile},
        {"stack", &read_stack, {"calibrate/stacks"}},
        {"reliability", &read_reliability, {"calibrate/reliability"}},
        {"expert-loads", &read_expert_loads},
        {"document-lengths", &read_document_lengths},
        {"request-lengths", &read_request_lengths},
        {"schedule-costs", &read_schedule_costs, {inputs + "uneven_stages.csv", inputs + "uneven_stages.toml"}},
        {"schedule-file", &read_schedule_order},
        {"measurement-csv", &read_measurement_csv, {inputs + "component-gemms.csv"}},
        {"measurement-jsonl", &read_measurement_lines, {inputs + "h100-made-up.jsonl"}},
        {"kernel-classes", &read_kernel_classes, {"calibrate/kernels.toml"}},
        {"kernel-trace", &read_kernel_trace, {inputs + "chunk-of-h100.csv"}},
        {"kineto", &read_kineto, {inputs + "kineto-trace.json", "tests/data/h100-pytorch-trace.json.gz"}},
        {"nccl-tests", &read_nccl_tests, {inputs + "nccl-tests.txt"}},
        {"training-log", &read_training_log, {inputs + "train-megatron.log"}},
        {"megatron", &read_launch_script, {inputs + "megatron"}},
        {"result", &read_stored_result, {inputs + "host-dualpipe-measured.json"}},
        {"case", &read_validation_case, {"calibrate/cases"}},
        {"host-cases", &read_host_cases, {"real/host/cases"}},
        {"kernel-cases", &read_kernel_cases, {"real/cuda/cases"}},
        {"component-table", &read_component_table},
        {"original-components", &read_original_components, {inputs + "component-gemms.csv"}},
        {"recipe", &read_recipe},
        {"left-cells", &read_left_cells, {"calibrate/residuals.csv"}},
        {"published-table", &read_published_table, {inputs + "steps-rows.csv", inputs + "serving-rows.csv"}},
        {"component-case", &read_component_case, {"calibrate/cases/components.toml", inputs + "components-case.toml"}},
        {"step-case", &read_step_case, {"calibrate/cases/published-steps.toml", inputs + "steps-case.toml"}},
        {"serving-case", &read_serving_case, {"calibrate/cases/serving.toml", inputs + "serving-case.toml"}},
        {"option-values", &read_option_values, {}, 128},
        {"ledger", &read_ledger, {"calibrate/ledger"}},
        {"checkpoint-file", &read_checkpoint_file},
        {"checkpoint-manifest", &read_checkpoint_manifest},
        {"control-channel", &take_control_bytes},
        {"prediction", &predict_plan, {}, 512, &mutate_plan},
    };
    for (Target& target : configuration_targets()) list.push_back(std::move(target));
    return list;
  }();
  return all;
}

std::string input_file(const std::string& name, std::string_view input) {
  static const tests::TemporaryDirectory folder;
  return folder.write(name, input).string();
}

std::string in_repository(const std::string& path) { return tests::source_folder().append("/").append(path); }

}  // namespace plumbline::fuzz

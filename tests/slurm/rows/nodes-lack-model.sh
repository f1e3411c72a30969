# fault: no node sees the model that the driver sees
# how: an empty folder mounted over the model's on every node
# on: cluster
# promise: the run ends after three jobs with node, file and the way out
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
mkdir "$scratch/models"
cp "$HRF_SOURCE_DIR/tests/golden/classifier.onnx" "$scratch/models"
other_machines mount -t tmpfs none "$scratch/models" || tell "cannot hide the model"
start --set "model.file=$scratch/models/classifier.onnx"
until_end
[ "$code" = 1 ] || tell "the run ended with $code, not 1"
says 'jobs in a row ran on machines that lack the same file, so the rest is not tried' || tell "it did not end for that"
says "node n[1-4] does not see '$scratch/models/classifier.onnx' \(No such file or directory\), which this machine does: it has to be at the same place" || tell "node, file and way out"

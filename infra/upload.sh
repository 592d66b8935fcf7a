#!/usr/bin/env bash
# Copies the template and its two archives into a bucket of yours, and prints the command that creates or updates the stack.
#
#   upload.sh BUCKET [PREFIX]
#
# BUCKET is its name, such as example-tools; PREFIX is burstwatch/ by default, and ends in a slash or is empty ('').
# The stack is burstwatch, or STACK=NAME in the environment. If it exists, the command keeps each of its parameters.
# Needs the AWS CLI. Exits with 0 if all is uploaded; 2 if an argument, a file or a tool is wrong or missing, or the stack
# cannot be updated from this template, and nothing was uploaded; 1 if AWS refused a call.
#
# Anyone who can write to the bucket decides what the functions run: choose one that only those who deploy can write to.
set -euo pipefail
template=burstwatch.template.json
fail() { echo "upload.sh: $*" >&2; exit 2; }

case ${1-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
{ [ $# -ge 1 ] && [ $# -le 2 ]; } || fail "give a bucket and, if need be, a prefix: upload.sh BUCKET [PREFIX]"
bucket=$1 prefix=${2-burstwatch/} stack=${STACK:-burstwatch}
# the template's patterns of AssetsBucket and AssetsPrefix
is_bucket='^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$' is_address='^([0-9]+\.){3}[0-9]+$' is_prefix='^([A-Za-z0-9._-]+/)*$'
{ [[ $bucket =~ $is_bucket && ! $bucket =~ $is_address ]] && [ "${bucket#*..}" = "$bucket" ]; } \
  || fail "'$bucket' is not the name of a bucket, such as example-tools"
[[ $prefix =~ $is_prefix ]] \
  || fail "the prefix '$prefix' must be empty, or names of letters, digits, '.', '_' and '-', each with a slash after it"
[[ $stack =~ ^[A-Za-z][A-Za-z0-9-]{0,127}$ ]] || fail "STACK='$stack' is not the name of a stack"

command -v aws > /dev/null || fail "the command aws is missing: install the AWS CLI"
if command -v sha256sum > /dev/null; then checksum() { sha256sum "$1"; }
elif command -v shasum > /dev/null; then checksum() { shasum -a 256 "$1"; }
else fail "the commands sha256sum and shasum are missing: install one of them, to check the archives"; fi

cd "$(dirname "$0")"
[ -f "$template" ] || fail "$template is missing beside this script: unpack all files of the release into one folder"
archives=$(grep -o 'burstwatch-[a-z]*-[0-9a-f]*\.zip' "$template" | sort -u) \
  || fail "$template is damaged: it names no archives; get it again"
for archive in $archives; do
  [ -f "$archive" ] || fail "$archive is missing beside this script: unpack all files of the release into one folder"
  named=${archive##*-}
  [ "$(checksum "$archive" | cut -c1-16)" = "${named%.zip}" ] \
    || fail "$archive is damaged: its contents have another checksum than its name; get it again"
done

region=$(aws s3api get-bucket-location --bucket "$bucket" --query LocationConstraint --output text) || exit 1
case $region in  # two Regions have an older name in S3
  None) region=us-east-1 ;;
  EU) region=eu-west-1 ;;
esac

action=create parameters="ParameterKey=AssetsBucket,ParameterValue=$bucket ParameterKey=AssetsPrefix,ParameterValue=$prefix"
# its status, then the names of its parameters
if existing=$(aws cloudformation describe-stacks --region "$region" --stack-name "$stack" --output text \
  --query 'Stacks[0].[StackStatus,Parameters[].ParameterKey][]' 2>&1); then
  existing=" $(echo $existing) "
  # one of `cdk deploy` may have the same name, and would lose all its settings to the template's defaults
  [[ $existing == *" AssetsBucket "* ]] || fail "the stack $stack was not made from this template, so an update would" \
    "replace its settings: for a second stack, set STACK=NAME, and add the parameter Name to the printed command"
  case $existing in
    " ROLLBACK_COMPLETE "* | " ROLLBACK_FAILED "* | " DELETE_FAILED "*)
      status=${existing# }
      fail "the stack $stack is in ${status%% *} and cannot be updated: delete it, then run this again:" \
        "aws cloudformation delete-stack --region $region --stack-name $stack" ;;
  esac
  action=update
  for parameter in $(sed -n '/^ "Parameters": {/,/^ }/s/^  "\([A-Za-z0-9]*\)": {$/\1/p' "$template"); do
    case $parameter$existing in
      Assets*) ;;
      *" $parameter "*) parameters="$parameters ParameterKey=$parameter,UsePreviousValue=true" ;;
      *) echo "new parameter, which gets its default: $parameter" >&2 ;;
    esac
  done
else
  case $existing in
    *"does not exist"*) ;;
    *) echo "upload.sh: cannot find out whether the stack $stack exists: $existing" >&2 ;;
  esac
  parameters="$parameters ParameterKey=Email1,ParameterValue=you@example.com"
fi

for file in $archives "$template"; do
  echo "s3://$bucket/$prefix$file" >&2
  aws s3api put-object --region "$region" --bucket "$bucket" --key "$prefix$file" --body "$file" > /dev/null || exit 1
done

case $region in cn-*) domain=amazonaws.com.cn ;; *) domain=amazonaws.com ;; esac
echo "aws cloudformation $action-stack --region $region --stack-name $stack --capabilities CAPABILITY_IAM \\"
echo "  --template-url https://$bucket.s3.$region.$domain/$prefix$template --parameters \\"
echo "$parameters" | xargs -n 2 | sed 's/^/  /; $!s/$/ \\/'

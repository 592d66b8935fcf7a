#!/usr/bin/env bash
# Copies the template and its two archives into a bucket of yours, and prints the command that creates the stack.
#   upload.sh BUCKET [PREFIX]      PREFIX is burstwatch/ by default, and ends in a slash. Needs version 2 of the AWS CLI.
# Anyone who can write to the bucket decides what the functions run: choose one that only those who deploy can write to.
set -euo pipefail
fail() { echo "upload.sh: $*" >&2; exit 2; }

[ $# -ge 1 ] && [ $# -le 2 ] || fail "give a bucket and, if need be, a prefix: upload.sh BUCKET [PREFIX]"
bucket=$1 prefix=${2-burstwatch/}
[ -z "$prefix" ] || [ "${prefix%/}" != "$prefix" ] || fail "the prefix '$prefix' must end in a slash"
cd "$(dirname "$0")"

for archive in burstwatch-*.zip; do
  [ "$(sha256sum "$archive" | cut -c1-16)" = "$(echo "$archive" | sed 's/.*-\([0-9a-f]*\)\.zip/\1/')" ] \
    || fail "$archive is damaged: its contents have another checksum than its name; get it again"
done
region=$(aws s3api get-bucket-location --bucket "$bucket" --query LocationConstraint --output text)
[ "$region" != None ] || region=us-east-1  # what S3 answers for its first Region
for file in burstwatch-*.zip burstwatch.template.json; do
  echo "s3://$bucket/$prefix$file" >&2
  aws s3api put-object --region "$region" --bucket "$bucket" --key "$prefix$file" --body "$file" > /dev/null
done

case $region in cn-*) domain=amazonaws.com.cn ;; *) domain=amazonaws.com ;; esac
cat <<END
aws cloudformation create-stack --region $region --stack-name burstwatch --capabilities CAPABILITY_IAM \\
  --template-url https://$bucket.s3.$region.$domain/${prefix}burstwatch.template.json --parameters \\
  ParameterKey=AssetsBucket,ParameterValue=$bucket ParameterKey=AssetsPrefix,ParameterValue=$prefix \\
  ParameterKey=Email1,ParameterValue=you@example.com
END

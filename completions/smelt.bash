# Bash completion of the smelt command.
_smelt() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
  local common="--help"
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "run inspect bench verify bundle devices --help --help-all --version" -- "$cur"))
    return
  fi
  case "$prev" in
    --backend) COMPREPLY=($(compgen -W "reference cpu vulkan" -- "$cur")); return ;;
    --device-storage) COMPREPLY=($(compgen -W "auto buffer texture" -- "$cur")); return ;;
    --tolerate) COMPREPLY=($(compgen -W "all ir-version node-order untyped-input untyped-attribute tensor-fields tensor-length value-range sparse-order branch-types zero-point-type quantization-scale zero-point-range program-identifier" -- "$cur")); return ;;
    --format) COMPREPLY=($(compgen -W "bp04 bp08" -- "$cur")); return ;;
    --output-dir) COMPREPLY=($(compgen -d -- "$cur")); return ;;
    --threads|--invokes|--seed|--top|--mean|--std|--runs|--warmup|--method|--limit-memory|--limit-seconds|--limit-steps|--device|--rtol|--atol) return ;;
  esac
  if [[ $cur == -* ]]; then
    case "$command" in
      run) COMPREPLY=($(compgen -W "$common --input --output-dir --backend --device --device-storage --fp16 --threads --invokes --method --data --tolerate --seed --limit-memory --limit-seconds --limit-steps --image --labels --top --mean --std" -- "$cur")) ;;
      inspect) COMPREPLY=($(compgen -W "$common --json --html --nodes --data --tolerate --backend --device --device-storage --fp16" -- "$cur")) ;;
      bench) COMPREPLY=($(compgen -W "$common --input --backend --device --device-storage --fp16 --threads --runs --warmup --method --data --tolerate --seed --limit-memory --limit-seconds --profile --json" -- "$cur")) ;;
      verify) COMPREPLY=($(compgen -W "$common --backend --device --device-storage --fp16 --rtol --atol --threads --data --tolerate --limit-memory --limit-seconds" -- "$cur")) ;;
      devices) COMPREPLY=($(compgen -W "$common --json" -- "$cur")) ;;
      bundle) COMPREPLY=($(compgen -W "$common --method --inputs --expected --record --add --format --backend --device --device-storage --fp16 --data --output" -- "$cur")) ;;
    esac
    return
  fi
  COMPREPLY=($(compgen -f -- "$cur"))
}
complete -o filenames -F _smelt smelt

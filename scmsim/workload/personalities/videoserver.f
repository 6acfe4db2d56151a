# Video server: 48 viewers read active films from start to end while passive ones are replaced.  129 of 226 films of 10 GiB
# are made beforehand: set filesize for less.
set $dir=/filebench
set $filesize=10g
set $nactive=32
set $npassive=194
set $nthreads=48
set $readsize=256k
set $writesize=1m
define fileset name=active,path=$dir,size=$filesize,entries=$nactive,dirwidth=4,prealloc,paralloc
define fileset name=passive,path=$dir,size=$filesize,entries=$npassive,dirwidth=20,prealloc=50,paralloc
define process name=writer,instances=1 {
  thread name=writer,memsize=10m,instances=1 {
    flowop deletefile name=remove,filesetname=passive
    flowop createfile name=create,filesetname=passive,fd=1
    flowop writewholefile name=film,iosize=$writesize,fd=1,srcfd=1
    flowop closefile name=close,fd=1
    flowop delay name=pause,value=10
  }
}
define process name=viewers,instances=1 {
  thread name=viewer,memsize=10m,instances=$nthreads {
    flowop read name=view,filesetname=active,iosize=$readsize
    flowop bwlimit name=limit,target=view
  }
}
